-- Failures of logins are counted in memory, by a clock that is never set.
DROP TABLE login_failure;

-- Tokens live a year at most.
UPDATE token SET expires = min(expires, (unixepoch() + 365 * 86400) * 1000);

-- Second factor: the shared secret, and the time step of the last code that was taken, which is none until the first one.
ALTER TABLE user ADD COLUMN totp BLOB;
ALTER TABLE user ADD COLUMN totp_step INTEGER;
CREATE TABLE recovery_code (
    user INTEGER NOT NULL REFERENCES user(id) ON DELETE CASCADE,
    hash BLOB NOT NULL,
    PRIMARY KEY (user, hash)
) STRICT, WITHOUT ROWID;

-- A version that is removed leaves its place to the one before; all else of a version stays as it is.
DROP TRIGGER version_is_kept;
CREATE TRIGGER version_is_kept BEFORE UPDATE OF id, scenario, author, toml, hash, created ON version
BEGIN SELECT RAISE(ABORT, 'versions are never changed'); END;
CREATE INDEX version_parent ON version(parent);
CREATE INDEX job_version ON job(version);
