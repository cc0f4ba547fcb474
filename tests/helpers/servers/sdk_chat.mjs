// A client as a chat UI is one: shows of a run, in order, each call, its result, the answer's tokens and the ending.
import { Client } from "@langchain/langgraph-sdk";

const [apiUrl, assistant, goal] = process.argv.slice(2);
const client = new Client({ apiUrl });
const shown = [];
const { thread_id: threadId } = await client.threads.create();
const input = { messages: [{ type: "human", content: goal }] };
const streamMode = ["messages-tuple", "values", "custom"];
let messages = [];
for await (const chunk of client.runs.stream(threadId, assistant, { input, streamMode })) {
  if (chunk.event === "error") throw new Error(JSON.stringify(chunk.data));
  if (chunk.event === "values") messages = chunk.data.messages;
  if (chunk.event !== "messages") continue;
  const [message] = chunk.data;
  for (const call of message.tool_calls ?? []) shown.push({ call: call.name, args: call.args, id: call.id });
  if (message.type === "tool") shown.push({ result: message.content, id: message.tool_call_id, status: message.status });
  if (message.type === "AIMessageChunk" && message.content) shown.push({ token: message.content, id: message.id });
}
const last = messages.at(-1);
shown.push({ answer: last.content, id: last.id, name: last.name, ...last.response_metadata });
console.log(JSON.stringify({ shown, kept: messages.map(({ id, type }) => ({ id, type })) }));
