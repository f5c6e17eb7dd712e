// The management API, as this page asks it.
//
// Owns:  the session (a cookie that scripts cannot read), the form of requests, and what an error says.

/** An answer that is none of success. `status` 0: the broker cannot be reached. */
export class ApiError extends Error {
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

const TIMEOUT_MS = 35_000;
const listeners = { expired: () => {}, reached: () => {} };

/** Who is told that the session has ended, and whether the broker answers. */
export function listen(names) {
  Object.assign(listeners, names);
}

async function send(method, path, body, options = {}) {
  const headers = { "X-Requested-With": "harrier-page", Accept: "application/json" };
  if (body !== undefined && options.type !== null) headers["Content-Type"] = options.type ?? "application/json";
  if (options.reason) headers["X-Reason"] = options.reason;
  let response;
  try {
    const timeout = AbortSignal.timeout(TIMEOUT_MS);
    const signal = options.signal ? AbortSignal.any([timeout, options.signal]) : timeout;
    response = await fetch(`api/${path}`, { method, headers, body, credentials: "same-origin", cache: "no-store", signal });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    listeners.reached(false);
    throw new ApiError(0, "the broker cannot be reached");
  }
  listeners.reached(true);
  if (response.ok) return response;
  const text = await response.text();
  let reason = text;
  try {
    const said = JSON.parse(text);
    reason = said.reason ?? said.error ?? text;
  } catch {
    // A proxy's page, perhaps; its status says enough.
    reason = `${response.status} ${response.statusText}`;
  }
  if (response.status === 401 && reason === "Login failed" && !options.isLogin) listeners.expired();
  throw new ApiError(response.status, String(reason));
}

const query = (parameters) => {
  const given = Object.entries(parameters ?? {}).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length === 0 ? "" : `?${new URLSearchParams(given.map(([key, value]) => [key, String(value)]))}`;
};

export async function get(path, parameters, options) {
  return (await send("GET", path + query(parameters), undefined, options)).json();
}

export async function put(path, body = {}) {
  return (await send("PUT", path, JSON.stringify(body))).status;
}

export async function post(path, body = {}) {
  const response = await send("POST", path, JSON.stringify(body));
  const text = await response.text();
  return text === "" ? null : JSON.parse(text);
}

export async function remove(path, parameters, options) {
  return (await send("DELETE", path + query(parameters), undefined, options)).status;
}

export async function login(username, password) {
  const form = new URLSearchParams({ username, password });
  await send("POST", "login", form, { isLogin: true, type: "application/x-www-form-urlencoded" });
}

export async function logout() {
  await send("DELETE", "login", undefined, { isLogin: true });
}

/** Who is logged in; nothing if nobody is. */
export async function whoami() {
  try {
    return await get("whoami", {}, { isLogin: true });
  } catch (error) {
    if (error.status === 401) return null;
    throw error;
  }
}
