// A client as a chat UI is one: streams a run, sees the interrupt in the thread, approves it, reads the answer.
import { Client } from "@langchain/langgraph-sdk";

const [apiUrl, goal] = process.argv.slice(2);
const client = new Client({ apiUrl });
const events = new Set();

async function run(threadId, payload) {
  const streamMode = ["values", "updates", "messages-tuple", "custom"];
  let last;
  for await (const chunk of client.runs.stream(threadId, "approving", { ...payload, streamMode })) {
    if (chunk.event === "error") throw new Error(JSON.stringify(chunk.data));
    events.add(chunk.event);
    if (chunk.event === "values") last = chunk.data;
  }
  return last;
}

const { thread_id: threadId } = await client.threads.create();
const paused = await run(threadId, { input: { messages: [{ type: "human", content: goal }] } });
const state = await client.threads.getState(threadId);
const thread = await client.threads.get(threadId);
const [{ value }] = state.tasks.flatMap((task) => task.interrupts);
const decisions = value.action_requests.map(() => ({ type: "approve" }));
const final = await run(threadId, { command: { resume: { decisions } } });
console.log(
  JSON.stringify({
    requested: value.action_requests.map((request) => request.name),
    streamed: paused.__interrupt__?.length ?? 0,
    status: thread.status,
    answer: final.messages.at(-1).content,
    events: [...events],
  }),
);
