# The deterministic simulation, twice: on the core as shipped, and on the core with planted bugs, which it must find.
file(GLOB sim_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cc)

add_executable(rallypoint_sim ${sim_sources})
target_link_libraries(rallypoint_sim PRIVATE rally_wal rally_raft Threads::Threads)

# The same with bugs: rally_wal's own Raft link must not bring the clean core along, so the log is built in here.
file(GLOB sim_wal_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/storage/wal/*.cc)
add_executable(rallypoint_sim_planted ${sim_sources} ${sim_wal_sources})
target_link_libraries(rallypoint_sim_planted PRIVATE rally_raft_planted rally_fs Threads::Threads)
if(TARGET rally_raft)
  add_dependencies(rallypoint_sim_planted rally_raft)  # both generate raft.pb.h
endif()

add_test(NAME sim_short COMMAND rallypoint_sim --seeds 1:300 --jobs 2)
set_tests_properties(sim_short PROPERTIES LABELS fast)
add_test(NAME sim_ci COMMAND rallypoint_sim --seeds 1000:1500 --jobs 2)
set_tests_properties(sim_ci PROPERTIES LABELS slow TIMEOUT 1200)
add_test(NAME sim_planted_bugs COMMAND rallypoint_sim_planted --bugs all --seeds-max 1000 --jobs 2)
set_tests_properties(sim_planted_bugs PROPERTIES LABELS fast TIMEOUT 600)
add_test(NAME sim_same_seed_same_trace COMMAND rallypoint_sim --seed 7)
set_tests_properties(sim_same_seed_same_trace PROPERTIES LABELS fast)
