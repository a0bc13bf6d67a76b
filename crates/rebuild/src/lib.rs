//! Arguments, wiring, prompts, rendering, exit codes
