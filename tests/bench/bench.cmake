# Benchmarks of single layers: every tests/bench/*_bench.cc is one program, outside `all`; it may use Google Benchmark.
#   cmake --build build/release --target benchmarks; tests/bench/run runs them with the rest
find_package(benchmark QUIET)
if(NOT benchmark_FOUND)
  return()
endif()
add_custom_target(benchmarks)
file(GLOB bench_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*_bench.cc)
foreach(source IN LISTS bench_sources)
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} EXCLUDE_FROM_ALL ${source})
  target_link_libraries(${name} PRIVATE rally_flags rally_raft rally_wal rally_engine rally_v2 benchmark::benchmark)
  add_dependencies(benchmarks ${name})
endforeach()
