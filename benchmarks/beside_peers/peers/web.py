"""The site of every peer: one Flask view that saves a job, commits, and enqueues it. BENCH_PEER names the queue."""

from __future__ import annotations

import importlib
import os

import durable_work
from flask import Flask, request

app = Flask(__name__)
enqueue = importlib.import_module(os.environ["BENCH_PEER"]).enqueue


@app.get("/healthz")
def healthz() -> str:
    return "ok"


@app.post("/jobs")
def submit() -> tuple[dict[str, str], int, dict[str, str]]:
    job_id, committed = durable_work.accept(request.get_json()["text"])
    enqueue(job_id)
    return {"id": job_id}, 202, {"X-Committed": repr(committed)}
