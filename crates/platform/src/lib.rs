//! The platform and target files: parse, resolve, underline faults; bundles
