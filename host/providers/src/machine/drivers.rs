//! Several drivers behind one provider: a class says which of them makes its VMs.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::call::{Call, Class, ListCall};
use super::code::Code;
use super::driver::{Driver, DriverError, DriverFuture, Progress, Teller, Vm};

/// Drivers, by what classes call their `provider`.
#[derive(Clone, Default)]
pub struct Drivers(BTreeMap<String, Arc<dyn Driver>>);

impl Drivers {
    /// With one more; one of the same name is replaced.
    pub fn with(mut self, name: &str, driver: Arc<dyn Driver>) -> Self {
        self.0.insert(name.to_owned(), driver);
        self
    }

    fn of(&self, class: &Class) -> Result<&dyn Driver, DriverError> {
        let driver = self.0.get(&class.provider).map(|driver| &**driver);
        driver.ok_or_else(|| {
            let name: String = class.provider.chars().take(64).collect();
            let message = format!("class {}: the host has no driver {name:?}", class.name);
            DriverError::new(Code::InvalidArgument, message)
        })
    }
}

impl Driver for Drivers {
    fn create<'a>(&'a self, call: &'a Call) -> DriverFuture<'a, Progress<Vm>> {
        Box::pin(async move { self.of(&call.class)?.create(call).await })
    }

    fn initialize<'a>(&'a self, call: &'a Call) -> DriverFuture<'a, Progress<Vm>> {
        Box::pin(async move { self.of(&call.class)?.initialize(call).await })
    }

    fn status<'a>(&'a self, call: &'a Call) -> DriverFuture<'a, Progress<Vm>> {
        Box::pin(async move { self.of(&call.class)?.status(call).await })
    }

    fn delete<'a>(&'a self, call: &'a Call) -> DriverFuture<'a, Progress<Option<String>>> {
        Box::pin(async move { self.of(&call.class)?.delete(call).await })
    }

    fn list<'a>(&'a self, call: &'a ListCall) -> DriverFuture<'a, BTreeMap<String, String>> {
        Box::pin(async move { self.of(&call.class)?.list(call).await })
    }

    fn tells(&self, teller: Teller) {
        self.0.values().for_each(|driver| driver.tells(Arc::clone(&teller)));
    }

    fn forget(&self, uid: &str) {
        self.0.values().for_each(|driver| driver.forget(uid));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::simulated::{Cloud, Config};
    use super::*;

    fn call(provider: &str) -> Call {
        serde_json::from_value(json!({
            "machine": {"namespace": "shoot", "name": "m1", "uid": "U-m1"},
            "class": {"name": "small", "provider": provider, "providerSpec": {}},
            "sensitive": {"secretData": {}},
        }))
        .expect("a call")
    }

    #[tokio::test]
    async fn a_class_names_its_driver_and_one_that_is_not_there_is_its_own_fault() {
        let drivers = Drivers::default()
            .with("one", Arc::new(Cloud::new(Config::default())))
            .with("two", Arc::new(Cloud::new(Config::default())));
        drivers.create(&call("one")).await.expect("a VM");
        assert!(drivers.status(&call("one")).await.is_ok());
        assert_eq!(drivers.status(&call("two")).await.expect_err("no VM").code, Code::NotFound);
        assert_eq!(
            drivers.create(&call("three")).await.expect_err("no driver").to_string(),
            "machine codes error: code = [InvalidArgument] message = [class small: the host has no driver \"three\"]"
        );
    }
}
