//! up, down, preflight, check, status: the parts put together
