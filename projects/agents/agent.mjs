// The same assistant as a process, without a package: requests by fetch, tools behind MCP, a line in and a line out.
import { createInterface } from "node:readline";
import { readFileSync } from "node:fs";

const { OPENAI_BASE_URL, OPENAI_API_KEY, MCP_TOOLS_URL, TOOLS } = process.env;
const tools = JSON.parse(readFileSync(TOOLS, "utf8"));
const instructions =
  "You help users to book doctors' appointments and viewings of apartments. Call a tool when you can.";

const post = async (url, body, headers = {}) => {
  const response = await fetch(url, {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "application/json, text/event-stream", ...headers },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${response.status}: ${text}`);
  return JSON.parse(text);
};

const callTool = async (name, args) => {
  const params = { name, arguments: args };
  const reply = await post(MCP_TOOLS_URL, { jsonrpc: "2.0", id: 1, method: "tools/call", params });
  return reply.result.content[0].text;
};

const answer = async (dialogue) => {
  const messages = [{ role: "system", content: instructions }, ...dialogue];
  for (;;) {
    const body = { model: "smollm2-star", messages, tools, temperature: 0, max_tokens: 96 };
    const authorization = { Authorization: `Bearer ${OPENAI_API_KEY}` };
    const reply = await post(`${OPENAI_BASE_URL}/chat/completions`, body, authorization);
    const message = reply.choices[0].message;
    if (!message.tool_calls?.length) return message.content ?? "";
    messages.push(message);
    for (const call of message.tool_calls) {
      const content = await callTool(call.function.name, JSON.parse(call.function.arguments));
      messages.push({ role: "tool", tool_call_id: call.id, content });
    }
  }
};

for await (const line of createInterface({ input: process.stdin })) {
  const { messages } = JSON.parse(line);
  console.log(JSON.stringify({ content: await answer(messages) }));
}
