"""A web process and a worker with built-in bugs, whose exceptions quote user input.

Web: gunicorn tests.support.processes.faulty_app:app     Worker: python -m tests.support.processes.faulty_app worker
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flask import Flask

IN_THE_WORK, IN_A_THREAD, IN_RQS_HANDS = "broken-inside", "broken-thread", "broken-outside"


def _web() -> Flask:
    from flask import request

    from wsgi import app

    @app.get("/breaks")
    def breaks() -> str:
        try:
            raise KeyError(request.query_string)
        except KeyError as error:
            raise ValueError(f"about {request.query_string!r}") from error

    return app


def _break_the_worker() -> None:
    from tasks.worker import delivery_handler
    from tasks.worker.attempt import AttemptRunner
    from tasks.worker.steps import Steps

    run_steps, work_on = Steps.run, delivery_handler.work_on

    def faulty(self: Steps, workflow: object, text: str, options: object) -> object:
        if IN_THE_WORK in text:
            raise ValueError(f"cannot work on {text}")
        if IN_A_THREAD in text:
            thread = threading.Thread(target=lambda: [][len(text)], name=text)  # type: ignore[index]
            thread.start()
            thread.join()
        if IN_RQS_HANDS in text:
            AttemptRunner.run = _raise(text)  # type: ignore[method-assign]
        return run_steps(self, workflow, text, options)  # type: ignore[arg-type]

    def outside(held: object, tools: object) -> object:
        state = work_on(held, tools)  # type: ignore[arg-type]
        if broken:
            raise ValueError(broken.pop())
        return state

    broken: list[str] = []

    def _raise(text: str) -> object:
        broken.append(text)
        return run

    run = AttemptRunner.run
    Steps.run = faulty  # type: ignore[assignment, method-assign]
    delivery_handler.work_on = outside  # type: ignore[assignment]


if __name__ == "__main__":
    from tasks.__main__ import main

    _break_the_worker()
    sys.exit(main(sys.argv[1:]))
elif "gunicorn" in sys.modules:
    app = _web()
