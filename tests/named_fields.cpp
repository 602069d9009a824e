// Structs that callers fill in, each with one field named. No compiler warns of it, as all else has a value in the
// header. The script compiles_alone.sh compiles it.
#include "berth/berth.hpp"
#include "berth/model/description.hpp"
#include "berth/op/check.hpp"
#include "berth/op/kernels.hpp"
#include "berth/op/operator.hpp"

void named_fields(const berth::graph& g) {
  using namespace berth;
  (void)rules::placement{.start_alignment = 64};
  (void)plan::buffer{.size = 1};
  (void)plan::memory{.cost = 1};
  (void)plan::reuse_penalty{.weight = 2};
  (void)plan::options{.work = plan::effort::best};
  (void)plan::use{.at = 1};
  (void)plan::step{.at = 1};
  (void)plan::link{.from = 1};
  (void)plan::use{.at = 0};
  (void)plan::dimension{.least = 1};
  (void)plan::size_term{.factor = 1};
  (void)plan::former_places{.offsets = {}};
  (void)plan::jpeg_scenario{.width = 1};
  (void)plan::vdec_scenario{.width = 1};
  (void)plan::media_model{.width = 1};
  (void)block_options{.alignment = 64};
  (void)pool_options{.limit = 1};
  (void)guard_options{.quarantine = 1};
  (void)alarm_callback{.context = nullptr};
  (void)debug_options{.guards = true};
  (void)tensor_type{.type = element::i8};
  (void)node_options{.workspace = 1};
  (void)graph_options{.budget = 1};
  (void)pipeline_link{.to_graph = 1};
  (void)memory_rule{.alignment = 1};
  (void)memories_question{.graph = g.structure()};
  (void)schedule::options{.stop = nullptr};
  (void)schedule::recompute_options{.move = {}};
  (void)op::tensor{.type = element::i8};
  (void)op::request{.op = "Add"};
  (void)op::check_options{.seed = 1};
  (void)op::activation{.alpha = 1};
  (void)op::window{.kernel = {}};
  (void)op::convolution_description{.bias = true};
  (void)op::transposed_convolution_description{.bias = true};
  (void)op::matmul_description{.bias = true};
  (void)trace::rectangle{.offset = 1};
  (void)trace::former_picture{.lower_bound = 1};
  (void)trace::picture{.lower_bound = 1};
  (void)model::value_info{.name = "x"};
  (void)model::node{.name = "x"};
  (void)model::subgraph{.inputs = {}};
  (void)model::description{.source = "x"};
}
