/* ggml on Berth without a change in its user's code: what a user of the drop-in may say beyond ggml's own interface.
 *
 * The drop-in (src/graph/adapters/berth_ggml.cpp, installed beside the CMake package) defines ggml's eight
 * ggml_gallocr_* functions over Berth's lifetimes and plans. It is compiled against the user's ggml, in one of two
 * ways:
 *
 *   in the build   berth_ggml(ggml-base): a CMake function that adds the source to the target that compiles
 *                  ggml-alloc.c, and renames ggml's own eight to ggml_stock_gallocr_* by compile definitions;
 *   beside it      berth_ggml_library(NAME): a shared library that is linked, or preloaded, before ggml (ELF; not where
 *                  ggml was linked with -Bsymbolic).
 *
 * With BERTH_GGML=0 in the environment every allocator made from then on is ggml's own, for comparison.
 *
 * A graph that has no right place is refused: reserve and alloc_graph return false, and ggml's log says which tensor
 * and why. No function throws. Not thread-safe: as with ggml's own, one thread at a time in one allocator, and in all
 * that share memory.
 */
#ifndef BERTH_GRAPH_ADAPTERS_GGML_H
#define BERTH_GRAPH_ADAPTERS_GGML_H

#include <ggml-backend.h>
#include <stdbool.h>

#if !defined(BERTH_GGML_API) && defined(__GNUC__) && !defined(_WIN32)
#define BERTH_GGML_API __attribute__((visibility("default")))
#elif !defined(BERTH_GGML_API)
#define BERTH_GGML_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* From now on the graphs of these schedulers lie in one arena a buffer type, as large as the largest of them needs.
 * For graphs that never run at the same time. What one graph leaves there (a tensor whose memory a later graph names,
 * as a source or as the root of a view) is kept by the next graph that reads it; a graph in between that does not read
 * it may take its bytes. So may a graph that is allocated before the user has read the last one's outputs.
 *
 * Call it with no work under way, best after each scheduler has reserved its worst case. Graphs allocated before must
 * be allocated again. The arena's bytes are counted once: by the first scheduler. The arena lives as long as one of the
 * schedulers.
 *
 * False, with the reason in ggml's log and nothing changed: count < 1, a null scheduler, one whose allocator is not
 * Berth's, or no memory. */
BERTH_GGML_API bool berth_ggml_share(const ggml_backend_sched_t* schedulers, int count);

#ifdef __cplusplus
}
#endif

#endif
