//! Records that are old enough to be forgotten.

use phase_engine::RunId;
use store::layout;

use crate::error::RecordError;
use crate::record_store::{RecordStore, key_of};

impl RecordStore {
    /// Removes the oldest records: `keep` of those before the current one stay, and so does the last-known-good.
    /// The current one always does, whatever its status. Gives how many were removed; safe to run again after a cut.
    ///
    /// # Errors
    /// The store can't be read or written.
    pub fn prune(&self, keep: usize) -> Result<usize, RecordError> {
        self.prune_telling(keep, |_| {})
    }

    /// As [`RecordStore::prune`], and gives each record as it was stored before it is removed.
    ///
    /// # Errors
    /// The store can't be read or written.
    pub fn prune_telling(
        &self,
        keep: usize,
        mut removed: impl FnMut(&[u8]),
    ) -> Result<usize, RecordError> {
        let Some(head) = self.head()?.map(|head| head.value) else {
            return Ok(0);
        };
        let Some(current) = head.current else {
            return Ok(0);
        };
        let listed = self.store.list(layout::RUNS);
        let keys = listed.map_err(|source| RecordError::List { source })?;
        let mut older: Vec<RunId> = keys
            .iter()
            .filter_map(layout::run_of_record)
            .filter_map(|run| RunId::new(run).ok())
            // A newer one is of a call that begins just now.
            .filter(|run| *run < current)
            .collect();
        older.sort();
        older.truncate(older.len().saturating_sub(keep));
        older.retain(|run| head.last_known_good.as_ref() != Some(run));
        for run in &older {
            let key = key_of(run)?;
            let Some(found) = self.read(&key)? else {
                continue;
            };
            removed(&found.bytes);
            self.store
                .delete_if_match(&key, &found.tag)
                .map_err(|source| RecordError::Write { key, source })?;
        }
        Ok(older.len())
    }
}
