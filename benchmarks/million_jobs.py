"""python -m benchmarks.million_jobs [--jobs N] [--directory DIR]

Fills a PostgreSQL of its own with a million jobs, requests each page of the real app that operators or users poll, and
prints how long each took and how the database found it. Exits 1 if a page took 100 ms or more, or if a big table was
read from end to end. The first run takes some minutes; a directory that is kept is not filled again.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import SecretStr
from sqlalchemy import Engine, create_engine, text

from benchmarks import history, pages, report
from tasks.settings import Settings
from webapp.local.services import services, temporary_directory


@contextmanager
def filled(directory: Path, jobs: int) -> Iterator[Settings]:
    """Run the benchmark's own services in this directory, with this many jobs in the tables."""
    for name in ("DATABASE_URL", "REDIS_URL"):
        os.environ.pop(name, None)
    with services(directory, throwaway=True) as addresses:
        settings = Settings(
            database_url=addresses["DATABASE_URL"],
            redis_url=addresses["REDIS_URL"],
            waybill_demo=True,
            proxy_hops=0,
            openai_api_key="not used: nothing is asked",
            metrics_token=SecretStr(pages.METRICS_TOKEN),
            model_prices=f"{history.MODEL}=0.25/2",
        )
        migrate(settings)
        engine = create_engine(settings.sqlalchemy_url)
        fill(engine, jobs, settings.queue_name)
        engine.dispose()
        yield settings


def migrate(settings: Settings) -> None:
    from flask_migrate import upgrade

    from webapp import create_app
    from webapp.extensions import db

    app = create_app(settings)
    with app.app_context():
        upgrade()
        db.engine.dispose()


def fill(engine: Engine, jobs: int, queue: str) -> None:
    """Write the history, unless it exists."""
    began = time.monotonic()
    with engine.begin() as connection:
        if connection.execute(text("SELECT exists(SELECT FROM jobs)")).scalar_one():
            return
        history.write(connection, jobs=jobs, queue=queue)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))  # as autovacuum would have done over the years
    print(f"filled with {jobs:,} jobs in {time.monotonic() - began:.0f} s", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--directory", type=Path, help="keep the filled database here")
    parser.add_argument("--plans", action="store_true", help="print the plan of every statement, not of the slowest")
    given = parser.parse_args()
    with temporary_directory() as temporary, filled(given.directory or Path(temporary), given.jobs) as settings:
        measured = pages.measure(settings)
        return report.print_all(measured, every_plan=given.plans)


if __name__ == "__main__":
    sys.exit(main())
