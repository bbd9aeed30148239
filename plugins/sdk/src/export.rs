//! What a plugin is, how one call of it runs, and its export as a component.

use crate::{Conclusion, Failure, Manifest, Pass, Reply, Request, Step, Stop};

/// A plugin: what it is and needs, and a pure function for its passes.
pub trait Plugin {
    /// What the plugin is and needs; may not depend on anything.
    fn describe() -> Manifest;

    /// One call of a pass: with the same [`Pass`] it must give the same result.
    fn reconcile(pass: &Pass) -> Result<Conclusion, Stop>;
}

/// One call of a pass, as the host makes it. Also the way to run a plugin natively.
pub fn run<P: Plugin>(request: Request) -> Result<Reply, Failure> {
    let pass = Pass::new(request);
    let outcome = P::reconcile(&pass);
    let (questions, log) = pass.into_questions_and_log();
    let step = match outcome {
        Ok(conclusion) => Step::Finish(conclusion.into_wit()),
        Err(Stop::Ask) => Step::Observe(questions),
        Err(Stop::Perform(actions)) => Step::Perform(actions),
        Err(Stop::Fail(failure)) => return Err(failure),
    };
    Ok(Reply { step, log })
}

/// Exports a [`Plugin`] as a component. Natively it does nothing, so that `cargo test` runs the rest.
#[macro_export]
macro_rules! plugin {
    ($plugin:ty) => {
        // Natively nobody calls it but its tests; what it is made of is not unused for that.
        #[cfg(not(target_family = "wasm"))]
        const _: (fn() -> $crate::Manifest, fn($crate::Request) -> Result<$crate::Reply, $crate::Failure>) =
            (<$plugin as $crate::Plugin>::describe, $crate::run::<$plugin>);

        #[cfg(target_family = "wasm")]
        const _: () = {
            struct Exported;

            #[global_allocator]
            static HEAP: $crate::Heap<$crate::Linear> = $crate::Heap::new($crate::Linear::new());

            impl $crate::bindings::exports::evenkeel::reconciler::guest::Guest for Exported {
                fn describe() -> $crate::Manifest {
                    $crate::install_panic_note();
                    <$plugin as $crate::Plugin>::describe()
                }

                fn reconcile(request: $crate::Request) -> Result<$crate::Reply, $crate::Failure> {
                    $crate::install_panic_note();
                    $crate::run::<$plugin>(request)
                }
            }

    $crate::bindings::export_guest!(Exported with_types_in $crate::bindings);
        };
    };
}
