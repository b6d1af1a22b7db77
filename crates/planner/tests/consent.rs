//! Permit, Warrant and Letting cannot be made, copied or read from a file outside of `safety`.
#![allow(clippy::unwrap_used)]

use ensemble_planner::{Letting, Permit, Warrant};

/// Does not compile if the type has the trait: then the method is ambiguous.
macro_rules! has_not {
    ($type:ty, $trait:path) => {
        const _: fn() = || {
            trait Ambiguous<A> {
                fn call() {}
            }
            impl<T: ?Sized> Ambiguous<()> for T {}
            struct Has;
            impl<T: ?Sized + $trait> Ambiguous<Has> for T {}
            let _ = <$type as Ambiguous<_>>::call;
        };
    };
}

has_not!(Permit, serde::de::DeserializeOwned);
has_not!(Warrant, serde::de::DeserializeOwned);
has_not!(Letting, serde::de::DeserializeOwned);
has_not!(Permit, serde::Serialize);
has_not!(Warrant, serde::Serialize);
has_not!(Letting, serde::Serialize);
has_not!(Permit, Clone);
has_not!(Warrant, Clone);
has_not!(Letting, Clone);
has_not!(Permit, Default);
has_not!(Warrant, Default);
has_not!(Letting, Default);

#[test]
fn consent_cannot_be_made_or_copied() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
