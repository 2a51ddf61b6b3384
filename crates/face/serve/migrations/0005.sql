-- Jobs on sites; the table is made again, as a check cannot be changed.
CREATE TABLE job_new (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    owner INTEGER NOT NULL REFERENCES user(id),
    version INTEGER REFERENCES version(id),
    kind TEXT NOT NULL DEFAULT 'simulate' CHECK (kind IN ('simulate', 'emulate', 'study', 'campaign', 'search', 'sites')),
    study TEXT,
    -- What a search is over, and its conditions, as JSON.
    search TEXT,
    -- Job file of a job on sites, TOML.
    sites TEXT,
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
    CHECK ((kind = 'search') = (search IS NOT NULL)),
    CHECK ((kind = 'sites') = (sites IS NOT NULL))
) STRICT;
INSERT INTO job_new(id, owner, version, kind, study, search, quick, name, note, shared, priority, state, attempt, seeds, duration, cancel,
    offset, runs, finished, share, message, folder, request_key, created, started, ended)
SELECT id, owner, version, kind, study, search, quick, name, note, shared, priority, state, attempt, seeds, duration, cancel,
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

-- Machines that dial in. A site that was revoked keeps its row, as jobs refer to it.
CREATE TABLE site (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    key BLOB NOT NULL UNIQUE,
    created INTEGER NOT NULL,
    revoked INTEGER,
    seen INTEGER,
    program TEXT NOT NULL DEFAULT '',
    -- State of the machine and its clock at the last look, as JSON.
    doctor TEXT NOT NULL DEFAULT '{}',
    clock TEXT NOT NULL DEFAULT '{}'
) STRICT;
CREATE UNIQUE INDEX site_name ON site(name) WHERE revoked IS NULL;

-- Invitations: each makes one site.
CREATE TABLE site_invitation (
    hash BLOB PRIMARY KEY,
    name TEXT NOT NULL,
    author INTEGER NOT NULL REFERENCES user(id),
    expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE site_task (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job INTEGER NOT NULL REFERENCES job(id),
    site INTEGER NOT NULL REFERENCES site(id),
    name TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    -- Program without its scenario, as JSON.
    program TEXT NOT NULL,
    start_us INTEGER NOT NULL,
    most_s INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'preparing'
        CHECK (state IN ('preparing', 'prepared', 'starting', 'running', 'ended', 'home', 'failed')),
    why TEXT NOT NULL DEFAULT '',
    created INTEGER NOT NULL,
    -- Ordered start by the controller's clock; start and end by the site's; its clock's difference and error.
    at_us INTEGER,
    started_us INTEGER,
    ended_us INTEGER,
    code INTEGER,
    offset_us REAL,
    error_us REAL,
    files TEXT,
    UNIQUE (job, attempt, name)
) STRICT;
CREATE INDEX site_task_site ON site_task(site, state);

-- Commands ascend over all sites: a site refuses one that is older than its last.
CREATE TABLE site_command (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    site INTEGER NOT NULL REFERENCES site(id),
    task INTEGER NOT NULL REFERENCES site_task(id),
    json TEXT NOT NULL,
    answered INTEGER
) STRICT;
CREATE INDEX site_command_open ON site_command(site, id) WHERE answered IS NULL;
CREATE INDEX site_command_task ON site_command(task);

-- Chunks of files that are on disk and have the hash that their site stated.
CREATE TABLE site_chunk (
    task INTEGER NOT NULL REFERENCES site_task(id),
    file INTEGER NOT NULL,
    chunk INTEGER NOT NULL,
    PRIMARY KEY (task, file, chunk)
) STRICT, WITHOUT ROWID;
