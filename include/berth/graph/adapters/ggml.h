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
 * At the first use one line of ggml's log names Berth's version and the ggml that it was compiled for. If another
 * version of ggml runs, the line says so, and every allocator is ggml's own.
 *
 * In the environment:
 *
 *   BERTH_GGML=0              every allocator made from then on is ggml's own, for comparison
 *   BERTH_GGML_SHARE=process  the schedulers of the process share their memory, as under berth_ggml_share()
 *   BERTH_GGML_SHARE=thread   the same for the schedulers that reserve first on one thread
 *   BERTH_GGML_SHARE=process:CUDA0,CPU    only the buffer types of these names (ggml_backend_buft_name())
 *
 *   BERTH_GGML_RESERVE_MS=20  how long a reserve may search; alloc_graph takes a millisecond, or three times ggml's
 * time
 *
 * A scheduler joins when it first needs memory. The arena grows to what the largest graph needs. An allocator that the
 * program made itself by ggml_gallocr_new() never joins. A value that is not understood is an error in ggml's log, and
 * nothing is shared.
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
 * For graphs that never run at the same time, also not on a device behind the host. A graph keeps a tensor that it
 * names as a source or as the root of a view, and that an earlier graph left there. A graph in between that does not
 * read the tensor may take its bytes. So may a graph that is allocated before the user has read the last one's outputs.
 *
 * Call it with no work under way, best after each scheduler has reserved its worst case. Graphs allocated before must
 * be allocated again. A graph allocated later may be computed several times, with its inputs set each time, as
 * llama.cpp's graph reuse does: if another scheduler makes the arena grow, the old block stays until each scheduler
 * that has a graph there has allocated its next one. The arena's bytes are counted once: by the first scheduler that
 * lives. The arena lives as long as one of the schedulers.
 *
 * False, with the reason in ggml's log and nothing changed: count < 1, a null scheduler, one whose allocator is not
 * Berth's, no memory, or buffers that keep something of each tensor until they are reset (ggml's meta, OpenCL and SYCL
 * buffers): a reset for one graph would destroy what belongs to the other. */
BERTH_GGML_API bool berth_ggml_share(const ggml_backend_sched_t* schedulers, int count);

#ifdef __cplusplus
}
#endif

#endif
