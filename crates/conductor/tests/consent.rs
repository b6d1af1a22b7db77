//! A call cannot be made from nothing. That it cannot be made outside of the conductor at all is in
//! `src/consent.rs`.

use ensemble_conductor::{ApiCall, EngineCall};

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

has_not!(ApiCall, Default);
has_not!(EngineCall, Default);
