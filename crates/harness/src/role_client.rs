//! The connection of a role to the broker.

/// Connects to the broker under the role's name.
pub fn connect(url: &str, role: &str) -> client::Result<client::Client> {
    let options =
        client::ConnectOptions { name: Some(format!("harrier bench {role}")), ..client::ConnectOptions::default() };
    client::Client::connect_with(&client::Url::parse(url)?, options)
}
