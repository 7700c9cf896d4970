-- The ledger. Written so that PostgreSQL reads it too.
CREATE TABLE attempts (
    number         INTEGER PRIMARY KEY,
    id             TEXT   NOT NULL UNIQUE,
    fingerprint    TEXT   NOT NULL,
    state          TEXT   NOT NULL
                   CHECK (state IN ('reserved', 'dispatching', 'delivered', 'released', 'unresolved')),
    account        TEXT   NOT NULL,
    tool           TEXT   NOT NULL,
    action         TEXT   NOT NULL,
    idempotency    TEXT   NOT NULL,
    beside         TEXT,
    resend         INTEGER NOT NULL,
    window_ms      BIGINT NOT NULL,
    level          TEXT   NOT NULL,
    owner          TEXT   NOT NULL,
    claimed        TEXT   NOT NULL,
    dispatched     TEXT,
    settled        TEXT,
    decided_by     TEXT,
    code           TEXT,
    because        TEXT,
    result_id      TEXT,
    alarm          TEXT,
    -- The receipt, until it lies in its file: what a killed executor leaves here the next one writes.
    draft          TEXT,
    -- The parameters that the `verify` command of the manifest is asked about.
    question       TEXT
);
CREATE INDEX attempts_by_fingerprint ON attempts (fingerprint);
CREATE INDEX attempts_open ON attempts (state)
    WHERE state IN ('reserved', 'dispatching', 'unresolved');
CREATE INDEX attempts_unfiled ON attempts (number) WHERE draft IS NOT NULL;

-- What was said about an attempt beside its state.
CREATE TABLE notes (
    attempt        TEXT   NOT NULL,
    at             TEXT   NOT NULL,
    kind           TEXT   NOT NULL,
    said_by        TEXT   NOT NULL,
    said           TEXT   NOT NULL
);
CREATE INDEX notes_by_attempt ON notes (attempt);

-- One row: which store this is, how many commits it has seen, and what its attempts come to.
CREATE TABLE store (
    id             TEXT   NOT NULL,
    commits        BIGINT NOT NULL,
    content        BIGINT NOT NULL
);
