-- Jobs of studies have no scenario; the table is made again, as a column cannot lose NOT NULL.
CREATE TABLE job_new (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner INTEGER NOT NULL REFERENCES user(id),
    version INTEGER REFERENCES version(id),
    kind TEXT NOT NULL DEFAULT 'simulate' CHECK (kind IN ('simulate', 'emulate', 'study')),
    study TEXT,
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
    CHECK ((kind = 'study') = (version IS NULL))
) STRICT;
INSERT INTO job_new(id, owner, version, kind, name, shared, priority, state, attempt, seeds, duration, cancel, offset, runs,
    finished, share, message, folder, request_key, created, started, ended)
SELECT id, owner, version, kind, name, shared, priority, state, attempt, seeds, duration, cancel, offset, runs,
    finished, share, message, folder, request_key, created, started, ended FROM job;
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

CREATE TABLE tag (
    job INTEGER NOT NULL REFERENCES job(id),
    name TEXT NOT NULL,
    PRIMARY KEY (job, name)
) STRICT, WITHOUT ROWID;

-- The testbed belongs to one person at a time.
CREATE TABLE reservation (
    id INTEGER PRIMARY KEY,
    owner INTEGER NOT NULL REFERENCES user(id),
    start INTEGER NOT NULL,
    end INTEGER NOT NULL,
    purpose TEXT NOT NULL,
    created INTEGER NOT NULL,
    CHECK (start < end)
) STRICT;
CREATE INDEX reservation_end ON reservation(end);
CREATE TRIGGER reservation_has_no_clash BEFORE INSERT ON reservation
WHEN EXISTS (SELECT 1 FROM reservation WHERE start < NEW.end AND end > NEW.start)
BEGIN SELECT RAISE(ABORT, 'the testbed is reserved in this time'); END;
CREATE TRIGGER reservation_is_kept BEFORE UPDATE OF owner, start, end ON reservation
BEGIN SELECT RAISE(ABORT, 'reservations are never moved'); END;
