// A page that uses flags through the OpenFeature SDK for browsers, which evaluates all of them and polls.
import { OpenFeature } from "@openfeature/web-sdk";
import { OFREPWebProvider } from "@openfeature/ofrep-web-provider";

const [url, token] = process.argv.slice(2);
const statuses = [];
const spy = async (request) => {
  const answer = await fetch(request);
  statuses.push(answer.status);
  return answer;
};
const describe = ({ value, variant, reason, errorCode, flagMetadata }) => ({
  value,
  variant,
  reason,
  error: errorCode ?? null,
  metadata: flagMetadata,
});

await OpenFeature.setContext({ targetingKey: "u-17", country: "de" });
const headers = [["Authorization", `Bearer ${token}`]];
const options = { baseUrl: url, headers, pollInterval: 100, fetchImplementation: spy };
await OpenFeature.setProviderAndWait(new OFREPWebProvider(options));
const client = OpenFeature.getClient();
const first = describe(client.getObjectDetails("checkout", {}));
while (statuses.length < 4) await new Promise((resolve) => setTimeout(resolve, 20));
const answers = {
  first,
  polled: describe(client.getObjectDetails("checkout", {})),
  statuses: [...statuses],
  unknown: describe(client.getStringDetails("nothing", "none")),
};
await OpenFeature.setContext({ targetingKey: "u-18", country: "fr" });
answers.other = describe(client.getObjectDetails("checkout", {}));
answers.last = statuses.at(-1);
console.log(JSON.stringify(answers));
await OpenFeature.close();
process.exit(0); // the provider goes on polling
