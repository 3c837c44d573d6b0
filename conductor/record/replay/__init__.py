"""A recorded chain, or one component of it, run again; and the agent of a trace.

recording          the messages at the two ends of a chain, or of one component, and at the services
specs              its proxies, as they run anew
player             runs them between the played client and agent
agent, client      answer and send as in the trace
recorded_services  answers calls of services as the trace has them
comparison         compares the messages that the ends got then and now
transcript         the lines that a guest gets and returns in a replay, for `conductor test`
"""
