//! Consent cannot be copied, made from nothing, stored or read from a file. That it cannot be made
//! outside of `safety` at all is in `src/consent.rs`.

use ensemble_planner::{ErrandWarrant, Letting, Permit, Warrant};

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

/// None of the ways to get a second one.
macro_rules! is_used_once {
    ($($type:ty),*) => {
        $(
            has_not!($type, Clone);
            has_not!($type, Default);
            has_not!($type, serde::Serialize);
            has_not!($type, serde::de::DeserializeOwned);
        )*
    };
}

is_used_once!(Permit, Warrant, ErrandWarrant, Letting);
