"""The retriever in chains, tools and agents."""

from __future__ import annotations

from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.tools import create_retriever_tool

from graphrag_core.testing import CHAIN_QUESTION as QUESTION


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
    call = {"name": "kb", "args": {"query": QUESTION}, "id": "1", "type": "tool_call"}
    for message in (tool.invoke(call), await tool.ainvoke(call)):
        assert "Tallinn" in message.content
        assert "keyring" in [document.id for document in message.artifact]
