//! The tables, and which version of them a file has.

use rusqlite::Connection;

/// The version that this program writes.
pub(crate) const VERSION: i32 = 1;

/// One job that is not over, at most, for each workspace of a platform's target.
const TABLES: &str = "
CREATE TABLE job (
    id TEXT PRIMARY KEY NOT NULL,
    kind TEXT NOT NULL,
    platform TEXT NOT NULL,
    target TEXT NOT NULL,
    workspace TEXT NOT NULL,
    playbook TEXT NOT NULL,
    spec TEXT NOT NULL,
    created_at TEXT NOT NULL,
    abandoned TEXT,
    holder TEXT,
    is_open INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX job_open ON job (platform, target, workspace) WHERE is_open = 1;
CREATE TABLE step (
    job TEXT NOT NULL REFERENCES job (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    looks INTEGER NOT NULL,
    status TEXT NOT NULL,
    n_attempts INTEGER NOT NULL,
    started_at TEXT,
    ended_at TEXT,
    outputs TEXT,
    error TEXT,
    PRIMARY KEY (job, position),
    UNIQUE (job, name)
) STRICT;
";

/// Makes the tables in a new file. Returns the version of a file that is newer than this program.
pub(crate) fn prepare(db: &mut Connection) -> rusqlite::Result<Option<i32>> {
    // Each write is on the disk, its directory entry too, before it counts.
    db.pragma_update(None, "synchronous", "EXTRA")?;
    db.pragma_update(None, "foreign_keys", true)?;
    let change = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let version: i32 = change.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version == 0 {
        change.execute_batch(TABLES)?;
        change.pragma_update(None, "user_version", VERSION)?;
    }
    change.commit()?;
    Ok(Some(version).filter(|version| *version > VERSION))
}
