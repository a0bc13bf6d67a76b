//! The binary: `rebuild::main` does the work.

fn main() -> std::process::ExitCode {
    rebuild::main()
}
