-- Jobs that came in an archive, and jobs that repeat others.
ALTER TABLE job ADD COLUMN origin TEXT;
ALTER TABLE job ADD COLUMN repeats INTEGER REFERENCES job(id);
-- Whether the fingerprints are those of the job that it repeats.
ALTER TABLE job ADD COLUMN equal INTEGER CHECK (equal IN (0, 1));
CREATE INDEX job_origin ON job(owner) WHERE origin IS NOT NULL;

-- Sites that a job needs.
CREATE TABLE job_site (
    job INTEGER NOT NULL REFERENCES job(id),
    site INTEGER NOT NULL REFERENCES site(id),
    PRIMARY KEY (job, site)
) STRICT, WITHOUT ROWID;

-- What a site answered to a change, as JSON.
ALTER TABLE site_command ADD COLUMN outcome TEXT;

-- Places of jobs, as the server was started last.
CREATE TABLE capacity (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    processors INTEGER NOT NULL CHECK (processors > 0)
) STRICT;
INSERT INTO capacity(one, processors) VALUES (1, 1);

-- A reservation is of all, of emulations, of one site, or of some processors.
DROP TRIGGER reservation_has_no_clash;
DROP TRIGGER reservation_is_kept;
ALTER TABLE reservation ADD COLUMN what TEXT NOT NULL DEFAULT 'testbed'
    CHECK (what IN ('testbed', 'emulate', 'site', 'processors'));
ALTER TABLE reservation ADD COLUMN site INTEGER REFERENCES site(id) CHECK ((what = 'site') = (site IS NOT NULL));
ALTER TABLE reservation ADD COLUMN processors INTEGER NOT NULL DEFAULT 0 CHECK ((what = 'processors') = (processors > 0));
CREATE TRIGGER reservation_has_no_clash BEFORE INSERT ON reservation
WHEN EXISTS (
    SELECT 1 FROM reservation AS other WHERE other.start < NEW.end AND other.end > NEW.start AND (
        other.what = 'testbed' OR NEW.what = 'testbed'
        -- An emulation runs alone on the server's machine.
        OR (other.what = 'emulate' AND NEW.what IN ('emulate', 'processors'))
        OR (other.what = 'processors' AND NEW.what = 'emulate')
        OR other.site = NEW.site))
BEGIN SELECT RAISE(ABORT, 'it is reserved in this time'); END;
-- The sum is largest at a start: that of the new one, or one within it.
CREATE TRIGGER reservation_has_room BEFORE INSERT ON reservation
WHEN NEW.what = 'processors' AND EXISTS (
    SELECT 1 FROM (SELECT NEW.start AS at UNION SELECT start FROM reservation
        WHERE what = 'processors' AND start > NEW.start AND start < NEW.end) AS instant
    WHERE NEW.processors + coalesce((SELECT sum(processors) FROM reservation
        WHERE what = 'processors' AND start <= instant.at AND end > instant.at), 0)
        > (SELECT processors FROM capacity))
BEGIN SELECT RAISE(ABORT, 'the processors are reserved in this time'); END;
CREATE TRIGGER reservation_is_kept BEFORE UPDATE ON reservation
BEGIN SELECT RAISE(ABORT, 'reservations are never changed'); END;
