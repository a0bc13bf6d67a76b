//! The record of a run, its schema and versions, the ledger inside it
