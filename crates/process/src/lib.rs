//! Child programs: spawn, follow, interrupt, kill; who a process is
