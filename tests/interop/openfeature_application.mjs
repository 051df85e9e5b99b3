// An application that uses flags through the OpenFeature SDK for servers; prints what it got as JSON.
import { OpenFeature } from "@openfeature/server-sdk";
import { OFREPProvider } from "@openfeature/ofrep-provider";

const [url, token, away] = process.argv.slice(2);
const headers = [["Authorization", `Bearer ${token}`]];
await OpenFeature.setProviderAndWait(new OFREPProvider({ baseUrl: url, headers }));
const client = OpenFeature.getClient();
const visitor = { targetingKey: "u-17", country: "de", plan: "free" };

const describe = (details) => ({
  value: details.value,
  variant: details.variant,
  reason: details.reason,
  error: details.errorCode ?? null,
  message: details.errorMessage,
  metadata: details.flagMetadata,
});

const answers = {
  object: describe(await client.getObjectDetails("checkout", {}, visitor)),
  again: describe(await client.getObjectDetails("checkout", {}, visitor)),
  boolean: describe(await client.getBooleanDetails("switch", false, visitor)),
  string: describe(await client.getStringDetails("banner", "none", visitor)),
  float: describe(await client.getNumberDetails("price", 0, visitor)),
  context: describe(await client.getStringDetails("shop", "none", visitor)),
  mismatch: describe(await client.getBooleanDetails("banner", true, visitor)),
  unknown: describe(await client.getStringDetails("nothing", "none", visitor)),
  nobody: describe(await client.getStringDetails("banner", "none", {})),
  invalid: describe(await client.getStringDetails("shop", "none", { targetingKey: "u-18" })),
};
await OpenFeature.setProviderAndWait(new OFREPProvider({ baseUrl: url }));
answers.token = describe(await client.getStringDetails("banner", "none", visitor));
await OpenFeature.setProviderAndWait(new OFREPProvider({ baseUrl: away }));
answers.away = describe(await client.getStringDetails("banner", "none", visitor));
console.log(JSON.stringify(answers));
await OpenFeature.close();
