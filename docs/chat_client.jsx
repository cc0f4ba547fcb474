// A chat page for `chat_picture.py`: the hook useStream of the LangGraph SDK, and nothing of certigraph.
import { useEffect } from "react";
import { createRoot } from "react-dom/client";
import { useStream } from "@langchain/langgraph-sdk/react";

const [apiUrl, assistantId, request] = JSON.parse(decodeURIComponent(location.hash.slice(1)));

function Message({ message }) {
  if (message.type === "tool") return <pre className={message.status}>{message.name}: {message.content}</pre>;
  const { ending, certified } = message.response_metadata ?? {};
  return (
    <section className={message.type}>
      {message.content && <p>{message.content}</p>}
      {message.tool_calls?.map(({ id, name, args }) => <code key={id}>{name}({JSON.stringify(args)})</code>)}
      {ending && <footer>{certified.map((condition) => <div key={condition}>✓ {condition}</div>)} {message.name}: {ending}</footer>}
    </section>
  );
}

function Chat() {
  const stream = useStream({ apiUrl, assistantId, messagesKey: "messages" });
  useEffect(() => void stream.submit({ messages: [{ type: "human", content: request }] }), []);
  useEffect(() => {
    const ended = stream.messages.at(-1)?.response_metadata?.ending;
    if (ended && !stream.isLoading) document.title = ended;
  });
  return stream.error ? <pre>{String(stream.error)}</pre> : stream.messages.map((m) => <Message key={m.id} message={m} />);
}

createRoot(document.body).render(<Chat />);
