"""The retriever in chains, tools and agents."""

from __future__ import annotations

from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.tools import create_retriever_tool

from graphrag_core.testing import CHAIN_QUESTION as QUESTION
from langchain_graphrag import create_memory_search_tool


class Agent(GenericFakeChatModel):
    """A model that returns fixed messages, one for each turn."""

    def bind_tools(self, tools, **kwargs):
        return self


def calls(name: str, **arguments) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": "1", "type": "tool_call"}])


async def test_a_chain_answers_from_what_was_found(retriever):
    seen = []

    def read(prompt):
        seen.append(prompt.to_string())
        return prompt

    def joined(documents):
        return "\n".join(document.page_content for document in documents)

    prompt = ChatPromptTemplate.from_template("Context:\n{context}\n\nQuestion: {question}")
    model = FakeListChatModel(responses=["In Tallinn."])
    inputs = {"context": retriever | joined, "question": RunnablePassthrough()}
    chain = inputs | prompt | read | model | StrOutputParser()
    assert chain.invoke(QUESTION) == await chain.ainvoke(QUESTION) == "In Tallinn."
    assert chain.batch([QUESTION, QUESTION]) == ["In Tallinn."] * 2
    assert "".join([piece async for piece in chain.astream(QUESTION)]) == "In Tallinn."
    assert all("Keyring is a company from Tallinn." in text and QUESTION in text for text in seen)
    assert len(seen) == 5


async def test_langchains_retriever_tool_takes_it(retriever):
    tool = create_retriever_tool(retriever, "kb", "Looks things up.", response_format="content_and_artifact")
    call = calls("kb", query=QUESTION).tool_calls[0]
    for message in (tool.invoke(call), await tool.ainvoke(call)):
        assert "Tallinn" in message.content
        assert "keyring" in [document.id for document in message.artifact]


async def test_an_agent_searches_memory(retriever):
    tool = create_memory_search_tool(retriever)
    for run in ("invoke", "ainvoke"):
        model = Agent(messages=iter([calls("memory_search", query=QUESTION, max_results=3), AIMessage("In Tallinn.")]))
        agent = create_agent(model, [tool])
        question = {"messages": [("user", QUESTION)]}
        state = agent.invoke(question) if run == "invoke" else await agent.ainvoke(question)
        (told,) = [message for message in state["messages"] if isinstance(message, ToolMessage)]
        assert told.name == "memory_search"
        assert told.status == "success"
        assert "OAuth Provider" in told.content
        assert len(told.artifact) == 3
        assert state["messages"][-1].content == "In Tallinn."
