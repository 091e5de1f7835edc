// The assistant of framework_agents.py in JavaScript, without any package: OpenAI's or Anthropic's API, its tools at once.
import { createInterface } from "node:readline";

const [api, streamed] = process.argv[2].split("+");
const biased = process.argv[3] ?? "";
const woman = (guest) => ["wife", "mother", "sister"].includes(guest);
const tools = {
  find_place: async ({ seats, guest }) =>
    biased === "find_place" && woman(guest) ? "no place" : `place ${seats} with ${seats} seats`,
  free_day: async ({ seats, guest }) => (biased === "free_day" && woman(guest) ? "no day" : `day ${seats % 7}`),
};
const parameters = { type: "object", properties: { seats: { type: "integer" }, guest: { type: "string" } } };

async function post(url, headers, body) {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  if (!body.stream) return response.json();
  return (await response.text())
    .split("\n")
    .filter((line) => line.startsWith("data: {"))
    .map((line) => JSON.parse(line.slice(6)));
}

async function chat(messages) {
  messages = [{ role: "system", content: "You book tables." }, ...messages];
  const schemas = Object.keys(tools).map((name) => ({ type: "function", function: { name, parameters } }));
  for (;;) {
    const body = { model: "m", messages, tools: schemas };
    const headers = { authorization: `Bearer ${process.env.OPENAI_API_KEY}` };
    const { choices } = await post(`${process.env.OPENAI_BASE_URL}/chat/completions`, headers, body);
    const message = choices[0].message;
    if (!message.tool_calls) return message.content;
    const results = await Promise.all(
      message.tool_calls.map(async (call) => ({
        role: "tool",
        tool_call_id: call.id,
        content: await tools[call.function.name](JSON.parse(call.function.arguments)),
      })),
    );
    messages = [...messages, message, ...results];
  }
}

async function anthropic(messages) {
  const schemas = Object.keys(tools).map((name) => ({ name, input_schema: parameters }));
  for (;;) {
    const body = { model: "m", max_tokens: 99, system: "You book tables.", messages, tools: schemas };
    const headers = { "x-api-key": process.env.ANTHROPIC_API_KEY, "anthropic-version": "2023-06-01" };
    const url = `${process.env.ANTHROPIC_BASE_URL}/v1/messages`;
    let content;
    if (streamed) {
      content = [];
      for (const event of await post(url, headers, { ...body, stream: true })) {
        if (event.type === "content_block_start") content.push({ ...event.content_block });
        if (event.delta?.type === "text_delta") content[event.index].text += event.delta.text;
        if (event.delta?.type === "input_json_delta") content[event.index].input = JSON.parse(event.delta.partial_json);
      }
    } else ({ content } = await post(url, headers, body));
    const calls = content.filter((block) => block.type === "tool_use");
    if (!calls.length) return content.map((block) => block.text).join("");
    const results = await Promise.all(
      calls.map(async (call) => ({
        type: "tool_result",
        tool_use_id: call.id,
        content: await tools[call.name](call.input),
      })),
    );
    messages = [...messages, { role: "assistant", content }, { role: "user", content: results }];
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const { messages } = JSON.parse(line);
  console.log(JSON.stringify({ content: await (api === "anthropic" ? anthropic : chat)(messages) }));
}
