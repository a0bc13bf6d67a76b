//! Phases, steps, order, resume and teardown rules; no IO
