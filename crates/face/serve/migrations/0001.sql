CREATE TABLE user (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE COLLATE NOCASE,
    hash TEXT NOT NULL,
    level INTEGER NOT NULL CHECK (level BETWEEN 0 AND 3),
    disabled INTEGER NOT NULL DEFAULT 0,
    created INTEGER NOT NULL
) STRICT;

CREATE TABLE session (
    id INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    user INTEGER NOT NULL REFERENCES user(id) ON DELETE CASCADE,
    created INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    address TEXT NOT NULL,
    agent TEXT NOT NULL
) STRICT;
CREATE INDEX session_user ON session(user);

CREATE TABLE token (
    id INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    user INTEGER NOT NULL REFERENCES user(id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    scope TEXT NOT NULL CHECK (scope IN ('read', 'run', 'admin')),
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    seen INTEGER
) STRICT;
CREATE INDEX token_user ON token(user);

CREATE TABLE login_failure (
    subject TEXT PRIMARY KEY,
    count INTEGER NOT NULL,
    last INTEGER NOT NULL
) STRICT;

CREATE TABLE scenario (
    id INTEGER PRIMARY KEY,
    owner INTEGER NOT NULL REFERENCES user(id),
    name TEXT NOT NULL,
    shared INTEGER NOT NULL DEFAULT 0,
    archived INTEGER NOT NULL DEFAULT 0,
    created INTEGER NOT NULL
) STRICT;

-- Versions are never updated: a change is a new row.
CREATE TABLE version (
    id INTEGER PRIMARY KEY,
    scenario INTEGER NOT NULL REFERENCES scenario(id),
    parent INTEGER REFERENCES version(id),
    author INTEGER NOT NULL REFERENCES user(id),
    toml TEXT NOT NULL,
    hash TEXT NOT NULL,
    created INTEGER NOT NULL
) STRICT;
CREATE INDEX version_scenario ON version(scenario, id);
CREATE TRIGGER version_is_kept BEFORE UPDATE ON version
BEGIN SELECT RAISE(ABORT, 'versions are never changed'); END;

CREATE TABLE job (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner INTEGER NOT NULL REFERENCES user(id),
    version INTEGER NOT NULL REFERENCES version(id),
    kind TEXT NOT NULL DEFAULT 'simulate' CHECK (kind IN ('simulate', 'emulate', 'study')),
    name TEXT NOT NULL,
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
    UNIQUE (owner, request_key)
) STRICT;
CREATE INDEX job_state ON job(state, priority, id);
CREATE INDEX job_owner ON job(owner, id);
CREATE TRIGGER job_state_is_legal BEFORE UPDATE OF state ON job
WHEN OLD.state <> NEW.state AND NOT (
    (OLD.state = 'queued' AND NEW.state IN ('running', 'cancelled', 'failed'))
    OR (OLD.state = 'running' AND NEW.state IN ('queued', 'done', 'failed', 'cancelled'))
)
BEGIN SELECT RAISE(ABORT, 'a job cannot change to this state'); END;

CREATE TABLE job_event (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job INTEGER NOT NULL REFERENCES job(id),
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    json TEXT NOT NULL
) STRICT;
CREATE INDEX job_event_job ON job_event(job, id);

CREATE TABLE point (
    job INTEGER NOT NULL REFERENCES job(id),
    number INTEGER NOT NULL,
    settings TEXT NOT NULL,
    fingerprints TEXT NOT NULL,
    PRIMARY KEY (job, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE measure (
    job INTEGER NOT NULL REFERENCES job(id),
    point INTEGER NOT NULL,
    name TEXT NOT NULL,
    unit TEXT NOT NULL,
    n INTEGER NOT NULL,
    mean REAL,
    half REAL,
    PRIMARY KEY (job, point, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE artifact (
    job INTEGER NOT NULL REFERENCES job(id),
    number INTEGER NOT NULL,
    path TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (job, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE preset (
    id INTEGER PRIMARY KEY,
    owner INTEGER NOT NULL REFERENCES user(id),
    shared INTEGER NOT NULL DEFAULT 0,
    section TEXT NOT NULL,
    name TEXT NOT NULL,
    toml TEXT NOT NULL,
    created INTEGER NOT NULL,
    UNIQUE (owner, section, name)
) STRICT;

-- Each row has the hash of the row before, so that a gap or a change shows.
CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    user TEXT NOT NULL,
    address TEXT NOT NULL,
    action TEXT NOT NULL,
    object TEXT NOT NULL,
    outcome TEXT NOT NULL,
    hash BLOB NOT NULL
) STRICT;
CREATE TRIGGER audit_is_kept BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is never changed'); END;
CREATE TRIGGER audit_is_whole BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is never cut'); END;
