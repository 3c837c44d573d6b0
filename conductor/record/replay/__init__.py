"""What a trace recorded, run again: one component, or a whole chain; and the agent of a trace.

recording          the lines that a trace recorded of a component
messages           its lines as messages on its sides, whatever dialect it speaks
player             delivers them again, and compares what the component sends with what it sent
chain_recording    what passed at the two ends of a chain, and at the services
chain_specs        its proxies, as they run anew
chain_player       runs them between the played client and agent
agent, client      answer and send as those of the trace did
recorded_services  answers calls of services as the trace has them
comparison         what the ends got then and now
"""
