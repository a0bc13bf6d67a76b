//! OpenTofu as a subprocess: typed commands, event stream, working directory, plugin cache
