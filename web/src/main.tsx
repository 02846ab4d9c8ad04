import { render } from "preact";
import { login } from "./api";
import { App } from "./app";
import "./style.css";

async function start(): Promise<void> {
  const root = document.getElementById("app");
  if (!root) return;
  try {
    if (await login(location.hash)) history.replaceState(null, "", `${location.pathname}#/`);
  } catch {
    // A wrong token: the page says that it is locked.
    history.replaceState(null, "", `${location.pathname}#/`);
  }
  render(<App />, root);
}

void start();
