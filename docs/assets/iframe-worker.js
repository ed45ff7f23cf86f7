// Browsers start no workers for pages that lie on a disk. There, the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  const load = (inner, url) =>
    new Promise((resolve, reject) => {
      const script = inner.document.createElement("script");
      script.src = url;
      script.onload = resolve;
      script.onerror = () => reject(new Error(`cannot load ${url}`));
      inner.document.body.append(script);
    });
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inner = frame.contentWindow;
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inner.importScripts = async (...urls) => {
        for (const each of urls) await load(inner, each);
      };
      this.inner = load(inner, url).then(() => inner);
    }
    async postMessage(data) {
      (await this.inner).dispatchEvent(new MessageEvent("message", { data }));
    }
  };
}
