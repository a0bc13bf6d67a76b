//! The program under the name by which Cargo hands it to the tests of this package.

fn main() -> std::process::ExitCode {
    rebuild::main()
}
