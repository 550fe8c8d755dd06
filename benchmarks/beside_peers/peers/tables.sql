CREATE TABLE bench_jobs (
  id uuid PRIMARY KEY,
  state text NOT NULL DEFAULT 'queued',
  document text NOT NULL,
  attempts int NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL DEFAULT now(),
  started_at timestamptz,
  finished_at timestamptz
);
CREATE TABLE bench_results (
  job_id uuid PRIMARY KEY REFERENCES bench_jobs,
  text text NOT NULL
);
