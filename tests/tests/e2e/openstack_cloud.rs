//! A small OpenStack on loopback for the real provider: identity, network, image, compute and object store, as far as
//! what is rendered asks for them. It keeps what is made, and says 409 where a real one does.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// What is there, by collection and id.
type Things = BTreeMap<String, BTreeMap<String, Value>>;

#[derive(Default)]
struct State {
    things: Things,
    n_made: u32,
    /// Changing calls that were answered, and those with 409.
    calls: Vec<String>,
    /// Calls that nobody had thought of.
    strange: Vec<String>,
}

/// The cloud.
pub(crate) struct OpenstackCloud {
    address: String,
    state: Arc<Mutex<State>>,
}

/// Collections of the network service with the name of one thing in each.
const NETWORK: [(&str, &str); 7] = [
    ("networks", "network"),
    ("subnets", "subnet"),
    ("routers", "router"),
    ("ports", "port"),
    ("floatingips", "floatingip"),
    ("security-groups", "security_group"),
    ("security-group-rules", "security_group_rule"),
];

struct Asked {
    method: String,
    path: String,
    query: Vec<(String, String)>,
    body: Value,
}

struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Value,
}

fn answer(status: u16, body: Value) -> Answer {
    Answer {
        status,
        headers: Vec::new(),
        body,
    }
}

impl OpenstackCloud {
    /// Starts one with an outer network, an image and a flavor.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(Mutex::new(State::default()));
        {
            let mut state = state.lock().unwrap();
            let outer = json!({ "id": "outer-id", "name": "outer", "status": "ACTIVE", "router:external": true, "admin_state_up": true, "subnets": [] });
            state.put("networks", "outer-id", outer);
            let image = json!({ "id": "11111111-1111-1111-1111-111111111111", "name": "talos", "status": "active", "visibility": "public", "container_format": "bare", "disk_format": "raw", "min_disk": 0, "min_ram": 0, "size": 1, "protected": false, "tags": [], "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z", "checksum": "c", "owner": "p", "file": "/f", "schema": "/s", "os_hidden": false });
            state.put("images", "11111111-1111-1111-1111-111111111111", image);
        }
        let (own, at) = (Arc::clone(&state), address.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (state, at) = (Arc::clone(&own), at.clone());
                std::thread::spawn(move || serve(stream, &state, &at));
            }
        });
        Self { address, state }
    }

    /// The `[env]` by which the provider finds it.
    pub(crate) fn env(&self) -> String {
        format!(
            "[env]\nOS_AUTH_URL = \"http://{}/identity/v3\"\nOS_USERNAME = \"ada\"\nOS_PASSWORD = \"a-password\"\nOS_PROJECT_NAME = \"lab\"\nOS_USER_DOMAIN_NAME = \"Default\"\nOS_PROJECT_DOMAIN_NAME = \"Default\"\nOS_REGION_NAME = \"one\"\n",
            self.address
        )
    }

    /// What there is of a collection.
    pub(crate) fn all(&self, collection: &str) -> Vec<Value> {
        let state = self.state.lock().unwrap();
        let found = state.things.get(collection);
        found
            .into_iter()
            .flat_map(BTreeMap::values)
            .cloned()
            .collect()
    }

    /// How many things there are that somebody made.
    pub(crate) fn n_things(&self) -> usize {
        let state = self.state.lock().unwrap();
        state.things.values().map(BTreeMap::len).sum::<usize>() - 2
    }

    /// Calls that changed something, since the last look.
    pub(crate) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().calls)
    }

    /// Calls that nobody had thought of.
    pub(crate) fn strange(&self) -> Vec<String> {
        self.state.lock().unwrap().strange.clone()
    }

    /// Something goes behind everybody's back.
    pub(crate) fn lose(&self, collection: &str) {
        self.state.lock().unwrap().things.remove(collection);
    }
}

fn serve(stream: TcpStream, state: &Mutex<State>, at: &str) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some(asked) = read(&mut reader) {
        let Answer {
            status,
            headers,
            body,
        } = state.lock().unwrap().answer(&asked, at);
        let text = if body.is_null() || asked.method == "HEAD" {
            String::new()
        } else {
            body.to_string()
        };
        let mut head = format!(
            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            text.len()
        );
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if stream
            .write_all(format!("{head}\r\n{text}").as_bytes())
            .is_err()
        {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok().filter(|n| *n > 0)?;
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(found) = header.strip_prefix("content-length:") {
            length = found.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let query = query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.replace("%3A", ":"), value.replace("%3A", ":")))
        .collect();
    Some(Asked {
        method,
        path: path.trim_end_matches('/').to_owned(),
        query,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    })
}

impl State {
    fn put(&mut self, collection: &str, id: &str, thing: Value) {
        let of = self.things.entry(collection.to_owned()).or_default();
        of.insert(id.to_owned(), thing);
    }

    fn get(&self, collection: &str, id: &str) -> Option<&Value> {
        self.things.get(collection)?.get(id)
    }

    fn new_id(&mut self) -> String {
        self.n_made += 1;
        format!("00000000-0000-0000-0000-{:012}", self.n_made)
    }

    fn answer(&mut self, asked: &Asked, at: &str) -> Answer {
        let parts: Vec<&str> = asked.path.trim_start_matches('/').split('/').collect();
        let answered = match parts[..] {
            ["identity", "v3", "auth", "tokens"] => token(at),
            ["network", "v2.0", ref rest @ ..] => self.network(asked, rest),
            ["compute", "v2.1", ref rest @ ..] => self.compute(asked, rest),
            ["image", "v2", ref rest @ ..] => self.image(asked, rest),
            ["object", "v1", "lab", name] => self.container(asked, name),
            ["image"] | ["compute"] | ["network"] => answer(300, json!({ "versions": [] })),
            _ => answer(404, json!({ "error": "not found" })),
        };
        if answered.status == 404 && asked.method != "GET" && asked.method != "HEAD" {
            self.strange
                .push(format!("{} {}", asked.method, asked.path));
        }
        if !["GET", "HEAD"].contains(&asked.method.as_str()) && parts[0] != "identity" {
            let status = if answered.status == 409 { " 409" } else { "" };
            self.calls
                .push(format!("{} {}{status}", asked.method, parts[2..].join("/")));
        }
        answered
    }

    fn network(&mut self, asked: &Asked, rest: &[&str]) -> Answer {
        if rest == ["extensions"] {
            return answer(200, json!({ "extensions": [] }));
        }
        if let ["routers", router, act] = rest {
            return self.router_interface(asked, router, act);
        }
        let Some((collection, one)) = rest
            .first()
            .and_then(|name| NETWORK.iter().find(|(known, _)| known == name))
        else {
            return answer(404, Value::Null);
        };
        let id = rest.get(1).copied().unwrap_or_default();
        let of_one = |thing: &Value| json!({ *one: thing });
        match (asked.method.as_str(), id) {
            ("POST", "") => {
                let id = self.new_id();
                let mut thing = asked.body[*one].clone();
                self.fill(collection, &id, &mut thing);
                self.put(collection, &id, thing.clone());
                answer(201, of_one(&thing))
            }
            ("GET", "") => {
                let plural = collection.replace('-', "_");
                let all = self
                    .things
                    .get(*collection)
                    .into_iter()
                    .flat_map(BTreeMap::values);
                let fits = |thing: &&Value| {
                    asked
                        .query
                        .iter()
                        .all(|(name, value)| match &thing[name.as_str()] {
                            Value::String(text) => text == value,
                            Value::Bool(flag) => flag.to_string() == *value,
                            _ => {
                                ["limit", "marker", "fields"].contains(&name.as_str())
                                    || name == "tenant_id"
                            }
                        })
                };
                let all: Vec<Value> = all.filter(fits).cloned().collect();
                answer(200, json!({ plural: all }))
            }
            ("GET", id) => match self.get(collection, id) {
                Some(thing) => answer(200, of_one(thing)),
                None => answer(404, json!({ "NeutronError": "not found" })),
            },
            ("PUT", id) => {
                let changes = asked.body[*one].clone();
                let found = self
                    .things
                    .get_mut(*collection)
                    .and_then(|all| all.get_mut(id));
                match (found, changes) {
                    (Some(Value::Object(thing)), Value::Object(changes)) => {
                        thing.extend(changes);
                        answer(200, json!({ *one: thing }))
                    }
                    _ => answer(404, Value::Null),
                }
            }
            ("DELETE", id) => self.delete(collection, id),
            _ => answer(405, Value::Null),
        }
    }

    /// What the service itself adds to a new thing.
    fn fill(&mut self, collection: &str, id: &str, thing: &mut Value) {
        thing["id"] = json!(id);
        thing["status"] = json!("ACTIVE");
        thing["tenant_id"] = json!("p");
        thing["project_id"] = json!("p");
        if thing.get("admin_state_up").is_none() {
            thing["admin_state_up"] = json!(true);
        }
        let n = self.n_made;
        match collection {
            "ports" => {
                if thing.get("fixed_ips").is_none() {
                    thing["fixed_ips"] = json!([{ "subnet_id": "s" }]);
                }
                for ip in thing["fixed_ips"].as_array_mut().into_iter().flatten() {
                    ip["ip_address"] = json!(format!("192.168.10.{n}"));
                }
                thing["mac_address"] = json!(format!("fa:16:3e:00:00:{:02x}", n % 256));
            }
            "floatingips" => thing["floating_ip_address"] = json!(format!("203.0.113.{n}")),
            "security-groups" => thing["security_group_rules"] = json!([]),
            "networks" => thing["subnets"] = json!([]),
            "subnets" => {
                thing["gateway_ip"] = json!("192.168.10.1");
                thing["enable_dhcp"] = json!(true);
                thing["allocation_pools"] =
                    json!([{ "start": "192.168.10.2", "end": "192.168.10.254" }]);
            }
            _ => {}
        }
    }

    fn delete(&mut self, collection: &str, id: &str) -> Answer {
        let is_used = |of: &str, name: &str| {
            let all = self.things.get(of).into_iter().flat_map(BTreeMap::values);
            let mut all = all;
            all.any(|thing| thing[name] == id)
        };
        let in_use = match collection {
            "networks" => is_used("subnets", "network_id") || is_used("ports", "network_id"),
            "routers" => is_used("ports", "device_id"),
            _ => false,
        };
        if in_use {
            return answer(
                409,
                json!({ "NeutronError": { "type": "InUse", "message": "in use", "detail": "" } }),
            );
        }
        match self
            .things
            .get_mut(collection)
            .and_then(|all| all.remove(id))
        {
            Some(_) => answer(204, Value::Null),
            None => answer(404, Value::Null),
        }
    }

    /// An interface can't go while a floating address hangs on the router.
    fn router_interface(&mut self, asked: &Asked, router: &str, act: &str) -> Answer {
        if act == "add_router_interface" {
            let id = self.new_id();
            let subnet = asked.body["subnet_id"].clone();
            let port = json!({ "id": id, "device_id": router, "device_owner": "network:router_interface", "status": "ACTIVE", "network_id": "", "fixed_ips": [{ "subnet_id": subnet, "ip_address": "192.168.10.1" }], "admin_state_up": true });
            self.put("ports", &id, port);
            return answer(
                200,
                json!({ "id": router, "port_id": id, "subnet_id": subnet, "tenant_id": "p" }),
            );
        }
        if self
            .things
            .get("floatingips")
            .is_some_and(|all| !all.is_empty())
        {
            let error = json!({ "NeutronError": { "type": "RouterInterfaceInUseByFloatingIP", "message": "in use", "detail": "" } });
            return answer(409, error);
        }
        let subnet = &asked.body["subnet_id"];
        let port = &asked.body["port_id"];
        let ports = self.things.entry("ports".to_owned()).or_default();
        ports.retain(|id, thing| {
            let is_it =
                port == id || (!subnet.is_null() && thing["fixed_ips"][0]["subnet_id"] == *subnet);
            !(thing["device_id"] == router && is_it)
        });
        answer(200, json!({ "id": router }))
    }

    fn compute(&mut self, asked: &Asked, rest: &[&str]) -> Answer {
        let flavor = json!({ "id": "f1", "name": "m1", "ram": 1024, "vcpus": 1, "disk": 0, "swap": "", "rxtx_factor": 1.0, "os-flavor-access:is_public": true });
        match (asked.method.as_str(), rest) {
            ("GET", ["flavors", "detail"] | ["flavors"]) => {
                answer(200, json!({ "flavors": [flavor] }))
            }
            ("GET", ["flavors", _]) => answer(200, json!({ "flavor": flavor })),
            ("GET", ["flavors", _, "os-extra_specs"]) => answer(200, json!({ "extra_specs": {} })),
            ("POST", ["servers"]) => {
                let id = self.new_id();
                let mut server = asked.body["server"].clone();
                let port = server["networks"][0]["port"].clone();
                let port = self.get("ports", port.as_str().unwrap_or_default());
                let address = port.map_or(Value::Null, |port| {
                    port["fixed_ips"][0]["ip_address"].clone()
                });
                let mac = port.map_or(Value::Null, |port| port["mac_address"].clone());
                let network = port.map_or(Value::Null, |port| port["network_id"].clone());
                let name = self
                    .get("networks", network.as_str().unwrap_or_default())
                    .and_then(|network| network["name"].as_str())
                    .unwrap_or("inner")
                    .to_owned();
                server["id"] = json!(id);
                server["status"] = json!("ACTIVE");
                server["tenant_id"] = json!("p");
                server["user_id"] = json!("u");
                server["created"] = json!("2026-01-01T00:00:00Z");
                server["updated"] = json!("2026-01-01T00:00:00Z");
                server["image"] = json!("");
                server["flavor"] = json!({ "id": "f1", "original_name": "m1", "vcpus": 1, "ram": 1024, "disk": 0, "ephemeral": 0, "swap": 0, "extra_specs": {} });
                server["addresses"] = json!({ name: [{ "addr": address, "version": 4, "OS-EXT-IPS:type": "fixed", "OS-EXT-IPS-MAC:mac_addr": mac }] });
                server["security_groups"] = json!([]);
                server["OS-EXT-STS:vm_state"] = json!("active");
                server["OS-EXT-STS:power_state"] = json!(1);
                server["os-extended-volumes:volumes_attached"] = json!([]);
                self.put("servers", &id, server);
                answer(202, json!({ "server": { "id": id, "adminPass": "x" } }))
            }
            ("GET", ["servers", id]) => match self.get("servers", id) {
                Some(server) => answer(200, json!({ "server": server })),
                None => answer(
                    404,
                    json!({ "itemNotFound": { "code": 404, "message": "none" } }),
                ),
            },
            ("GET", ["servers", id, "os-interface"]) => {
                let server = self.get("servers", id).cloned().unwrap_or_default();
                let port = server["networks"][0]["port"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                let port = self.get("ports", &port).cloned().unwrap_or_default();
                answer(
                    200,
                    json!({ "interfaceAttachments": [{ "port_id": port["id"], "net_id": port["network_id"], "mac_addr": port["mac_address"], "port_state": "ACTIVE", "fixed_ips": port["fixed_ips"] }] }),
                )
            }
            ("GET", ["servers", _, "os-volume_attachments"]) => {
                answer(200, json!({ "volumeAttachments": [] }))
            }
            ("GET", ["servers", _, "tags"]) => answer(200, json!({ "tags": [] })),
            ("GET", ["servers", id, "metadata"]) => {
                let server = self.get("servers", id).cloned().unwrap_or_default();
                answer(200, json!({ "metadata": server["metadata"] }))
            }
            ("DELETE", ["servers", id]) => self.delete("servers", id),
            _ => answer(404, Value::Null),
        }
    }

    fn image(&mut self, asked: &Asked, rest: &[&str]) -> Answer {
        match rest {
            ["images"] => {
                let all = self
                    .things
                    .get("images")
                    .into_iter()
                    .flat_map(BTreeMap::values);
                let name = asked.query.iter().find(|(name, _)| name == "name");
                let fits =
                    |image: &&Value| name.is_none_or(|(_, name)| image["name"] == name.as_str());
                let all: Vec<Value> = all.filter(fits).cloned().collect();
                answer(200, json!({ "images": all }))
            }
            ["images", id] => match self.get("images", id) {
                Some(image) => answer(200, image.clone()),
                None => answer(404, Value::Null),
            },
            _ => answer(404, Value::Null),
        }
    }

    fn container(&mut self, asked: &Asked, name: &str) -> Answer {
        let is_there = self.get("containers", name).is_some();
        match asked.method.as_str() {
            "PUT" => {
                self.put("containers", name, json!({ "name": name }));
                answer(201, Value::Null)
            }
            "POST" if is_there => answer(204, Value::Null),
            "DELETE" if is_there => self.delete("containers", name),
            "GET" if is_there => answer(200, json!([])),
            "HEAD" if is_there => {
                let mut found = answer(204, Value::Null);
                found.headers = vec![
                    ("X-Container-Object-Count", "0".to_owned()),
                    ("X-Container-Bytes-Used", "0".to_owned()),
                    ("X-Storage-Policy", "Policy-0".to_owned()),
                    ("Date", "Thu, 01 Jan 2026 00:00:00 GMT".to_owned()),
                    ("X-Timestamp", "1767225600.00000".to_owned()),
                ];
                found
            }
            _ => answer(404, Value::Null),
        }
    }
}

fn token(at: &str) -> Answer {
    let service = |kind: &str, path: &str| {
        let endpoint = json!({ "id": kind, "interface": "public", "region": "one", "region_id": "one", "url": format!("http://{at}/{path}") });
        json!({ "id": kind, "type": kind, "name": kind, "endpoints": [endpoint] })
    };
    let catalog = json!([
        service("identity", "identity/v3"),
        service("network", "network"),
        service("compute", "compute/v2.1"),
        service("image", "image"),
        service("object-store", "object/v1/lab"),
    ]);
    let mut found = answer(
        201,
        json!({ "token": {
            "methods": ["password"], "expires_at": "2099-01-01T00:00:00.000000Z", "issued_at": "2026-01-01T00:00:00.000000Z",
            "user": { "id": "u", "name": "ada", "domain": { "id": "default", "name": "Default" } },
            "project": { "id": "p", "name": "lab", "domain": { "id": "default", "name": "Default" } },
            "roles": [], "catalog": catalog,
        } }),
    );
    found.headers = vec![("X-Subject-Token", "a-token".to_owned())];
    found
}
