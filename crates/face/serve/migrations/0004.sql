-- Searches are jobs; the table is made again, as a check cannot be changed.
CREATE TABLE job_new (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner INTEGER NOT NULL REFERENCES user(id),
    version INTEGER REFERENCES version(id),
    kind TEXT NOT NULL DEFAULT 'simulate' CHECK (kind IN ('simulate', 'emulate', 'study', 'campaign', 'search')),
    study TEXT,
    -- What a search is over, and its conditions, as JSON.
    search TEXT,
    quick INTEGER NOT NULL DEFAULT 0,
    name TEXT NOT NULL,
    note TEXT NOT NULL DEFAULT '',
    shared INTEGER NOT NULL DEFAULT 0,
    priority INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL DEFAULT 'queued'
        CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled')),
    attempt INTEGER NOT NULL DEFAULT 0,
    seeds INTEGER,
    duration TEXT,
    cancel INTEGER NOT NULL DEFAULT 0,
    offset INTEGER NOT NULL DEFAULT 0,
    runs INTEGER NOT NULL DEFAULT 0,
    finished INTEGER NOT NULL DEFAULT 0,
    share REAL NOT NULL DEFAULT 0,
    message TEXT NOT NULL DEFAULT '',
    folder TEXT,
    request_key TEXT,
    created INTEGER NOT NULL,
    started INTEGER,
    ended INTEGER,
    UNIQUE (owner, request_key),
    CHECK ((kind = 'study') = (study IS NOT NULL)),
    CHECK ((kind = 'study') = (version IS NULL)),
    CHECK ((kind = 'search') = (search IS NOT NULL))
) STRICT;
INSERT INTO job_new(id, owner, version, kind, study, quick, name, note, shared, priority, state, attempt, seeds, duration, cancel,
    offset, runs, finished, share, message, folder, request_key, created, started, ended)
SELECT id, owner, version, kind, study, quick, name, note, shared, priority, state, attempt, seeds, duration, cancel,
    offset, runs, finished, share, message, folder, request_key, created, started, ended FROM job;
DROP TABLE job;
ALTER TABLE job_new RENAME TO job;
CREATE INDEX job_state ON job(state, priority, id);
CREATE INDEX job_owner ON job(owner, id);
CREATE TRIGGER job_state_is_legal BEFORE UPDATE OF state ON job
WHEN OLD.state <> NEW.state AND NOT (
    (OLD.state = 'queued' AND NEW.state IN ('running', 'cancelled', 'failed'))
    OR (OLD.state = 'running' AND NEW.state IN ('queued', 'done', 'failed', 'cancelled'))
)
BEGIN SELECT RAISE(ABORT, 'a job cannot change to this state'); END;
