//! A call can only be made by a conductor, from a harmless write, a warrant or a letting.

#[test]
fn a_call_cannot_be_made_outside_of_the_conductor() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
