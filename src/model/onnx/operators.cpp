// The rows are those of ONNX's own list of changes (https://github.com/onnx/onnx/blob/main/docs/Changelog.md) to
// opset 28.
#include "model/onnx/operators.hpp"

#include <algorithm>
#include <charconv>

#include "op/by_name.hpp"

namespace berth::model {
namespace {

// By name. clang-format would put every row on four lines.
// clang-format off
constexpr onnx_operator table[] = {
    {"Abs Ceil Exp Floor Log Neg Reciprocal Sigmoid Sqrt Tanh", "1 6 13", "consumed_inputs:1-5"},
    {"Acos Asin Atan Cos Sin Tan", "7 22", ""},
    {"Acosh Asinh Atanh Cosh Sinh", "9 22", ""},
    {"Add Div Mul Sub", "1 6 7 13 14", "axis:1-6 broadcast:1-6 consumed_inputs:1-5"},
    {"AffineGrid", "20", "align_corners"},
    {"And Or Xor", "1 7", "axis:1-6 broadcast:1-6"},
    {"ArgMax ArgMin", "1 11 12 13", "axis keepdims select_last_index:12"},
    {"Attention", "23 24 25",
     "is_causal kv_num_heads left_window_size:25 q_num_heads qk_matmul_output_mode right_window_size:25 scale "
     "softcap softmax_precision"},
    {"AveragePool", "1 7 10 11 19 22",
     "auto_pad ceil_mode:10 count_include_pad:7 dilations:19 kernel_shape pads strides"},
    {"BatchNormalization", "1 6 7 9 14 15",
     "consumed_inputs:1-5 epsilon is_test:1-6 momentum spatial:1-8 training_mode:14"},
    {"Bernoulli", "15 22", "dtype seed"},
    {"BitCast", "26", "to"},
    {"BitShift", "11", "direction"},
    {"BitwiseAnd BitwiseNot BitwiseOr BitwiseXor", "18", ""},
    {"BlackmanWindow HammingWindow HannWindow", "17", "output_datatype periodic"},
    {"Cast", "1 6 9 13 19 21 23 24 25", "round_mode:24 saturate:19 to"},
    {"CastLike", "15 19 21 23 24 25", "round_mode:24 saturate:19"},
    {"CausalConvWithState", "27", "activation"},
    {"Celu", "12 28", "alpha"},
    {"CenterCropPad", "18", "axes"},
    {"Clip", "1 6 11 12 13", "consumed_inputs:1-5 max:1-10 min:1-10"},
    {"Col2Im", "18", "dilations pads strides"},
    {"Compress OneHot", "9 11", "axis"},
    {"Concat", "1 4 11 13", "axis"},
    {"ConcatFromSequence", "11", "axis new_axis"},
    {"Constant", "1 9 11 12 13 19 21 23 24 25",
     "sparse_value:11 value value_float:12 value_floats:12 value_int:12 value_ints:12 value_string:12 "
     "value_strings:12"},
    {"ConstantOfShape", "9 20 21 23 24 25", "value"},
    {"Conv", "1 11 22", "auto_pad dilations group kernel_shape pads strides"},
    {"ConvInteger QLinearConv", "10", "auto_pad dilations group kernel_shape pads strides"},
    {"ConvTranspose", "1 11 22", "auto_pad dilations group kernel_shape output_padding output_shape pads strides"},
    {"CumProd", "26", "exclusive reverse"},
    {"CumSum", "11 14", "exclusive reverse"},
    {"DFT", "17 20", "axis:17-19 inverse onesided"},
    {"DeformConv", "19 22", "dilations group kernel_shape offset_group pads strides"},
    {"DepthToSpace", "1 11 13", "blocksize mode:11"},
    {"DequantizeLinear", "10 13 19 21 23 24 25", "axis:13 block_size:21 output_dtype:23"},
    {"Det Round", "11 22", ""},
    {"Dropout", "1 6 7 10 12 13 22", "consumed_inputs:1-5 is_test:1-6 ratio:1-11 seed:12"},
    {"DynamicQuantizeLinear SequenceAt SequenceConstruct SequenceErase SequenceInsert SequenceLength", "11", ""},
    {"Einsum", "12", "equation"},
    {"Elu", "1 6 22", "alpha consumed_inputs:1-5"},
    {"Equal", "1 7 11 13 19", "axis:1-6 broadcast:1-6"},
    {"Erf NonZero Sign", "9 13", ""},
    {"Expand", "8 13", ""},
    {"EyeLike", "9 22", "dtype k"},
    {"Flatten", "1 9 11 13 21 23 24 25", "axis"},
    {"GRU", "1 3 7 14 22",
     "activation_alpha activation_beta activations clip direction hidden_size layout:14 linear_before_reset:3 "
     "output_sequence:1-6"},
    {"Gather Hardmax LogSoftmax Softmax", "1 11 13", "axis"},
    {"GatherElements", "11 13", "axis"},
    {"GatherND", "11 12 13", "batch_dims:12"},
    {"Gelu", "20", "approximate"},
    {"Gemm", "1 6 7 9 11 13", "alpha beta broadcast:1-6 transA transB"},
    {"GlobalAveragePool GlobalMaxPool Softplus Softsign", "1 22", ""},
    {"GlobalLpPool", "1 2 22", "p"},
    {"Greater Less", "1 7 9 13", "axis:1-6 broadcast:1-6"},
    {"GreaterOrEqual LessOrEqual", "12 16", ""},
    {"GridSample", "16 20 22", "align_corners mode padding_mode"},
    {"GroupNormalization", "18 21", "epsilon:21 num_groups:21 stash_type:21"},
    {"HardSigmoid", "1 6 22", "alpha beta consumed_inputs:1-5"},
    {"HardSwish", "14 22", ""},
    {"Identity", "1 13 14 16 19 21 23 24 25", ""},
    {"If", "1 11 13 16 19 21 23 24 25", "else_branch then_branch"},
    {"ImageDecoder", "20", "pixel_format"},
    {"InstanceNormalization", "1 6 22", "consumed_inputs:1-5 epsilon"},
    {"IsInf", "10 20", "detect_negative detect_positive"},
    {"IsNaN", "9 13 20", ""},
    {"LRN", "1 13", "alpha beta bias size"},
    {"LSTM", "1 7 14 22",
     "activation_alpha activation_beta activations clip direction hidden_size input_forget layout:14 "
     "output_sequence:1-6"},
    {"LayerNormalization", "17", "axis epsilon stash_type"},
    {"LeakyRelu", "1 6 16", "alpha consumed_inputs:1-5"},
    {"LinearAttention", "27", "chunk_size kv_num_heads q_num_heads scale update_rule"},
    {"Loop", "1 11 13 16 19 21 23 24 25", "body"},
    {"LpNormalization", "1 22", "axis p"},
    {"LpPool", "1 2 11 18 22", "auto_pad ceil_mode:18 dilations:18 kernel_shape p pads strides"},
    {"MatMul", "1 9 13", ""},
    {"MatMulInteger", "10", ""},
    {"Max Min", "1 6 8 12 13", "consumed_inputs:1-5"},
    {"MaxPool", "1 8 10 11 12 22", "auto_pad ceil_mode:10 dilations:10 kernel_shape pads storage_order:8 strides"},
    {"MaxRoiPool", "1 22", "pooled_shape spatial_scale"},
    {"MaxUnpool", "9 11 22", "kernel_shape pads strides"},
    {"Mean Sum", "1 6 8 13", "consumed_inputs:1-5"},
    {"MeanVarianceNormalization", "9 13", "axes"},
    {"MelWeightMatrix", "17", "output_datatype"},
    {"Mish", "18 22", ""},
    {"Mod", "10 13", "fmod"},
    {"Multinomial", "7 22", "dtype sample_size seed"},
    {"NegativeLogLikelihoodLoss", "12 13 22", "ignore_index reduction"},
    {"NonMaxSuppression", "10 11", "center_point_box"},
    {"Not", "1", ""},
    {"Optional", "15", "type"},
    {"OptionalGetElement OptionalHasElement", "15 18", ""},
    {"PRelu", "1 6 7 9 16", "consumed_inputs:1-5"},
    {"Pad", "1 2 11 13 18 19 21 23 24 25", "mode paddings:1-1 pads:2-10 value:1-10"},
    {"Pow", "1 7 12 13 15", "axis:1-6 broadcast:1-6"},
    {"QLinearMatMul", "10 21", ""},
    {"QuantizeLinear", "10 13 19 21 23 24 25", "axis:13 block_size:21 output_dtype:21 precision:23 saturate:19"},
    {"RMSNormalization", "23", "axis epsilon stash_type"},
    {"RNN", "1 7 14 22",
     "activation_alpha activation_beta activations clip direction hidden_size layout:14 output_sequence:1-6"},
    {"RandomNormal", "1 22", "dtype mean scale seed shape"},
    {"RandomNormalLike", "1 22", "dtype mean scale seed"},
    {"RandomUniform", "1 22", "dtype high low seed shape"},
    {"RandomUniformLike", "1 22", "dtype high low seed"},
    {"Range", "11 27", "stash_type:27"},
    {"ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMean ReduceProd ReduceSumSquare", "1 11 13 18",
     "axes:1-17 keepdims noop_with_empty_axes:18"},
    {"ReduceMax ReduceMin", "1 11 12 13 18 20", "axes:1-17 keepdims noop_with_empty_axes:18"},
    {"ReduceSum", "1 11 13", "axes:1-12 keepdims noop_with_empty_axes:13"},
    {"RegexFullMatch", "20", "pattern"},
    {"Relu", "1 6 13 14", "consumed_inputs:1-5"},
    {"Reshape", "1 5 13 14 19 21 23 24 25", "allowzero:14 consumed_inputs:1-4 shape:1-4"},
    {"Resize", "10 11 13 18 19",
     "antialias:18 axes:18 coordinate_transformation_mode:11 cubic_coeff_a:11 exclude_outside:11 "
     "extrapolation_value:11 keep_aspect_ratio_policy:18 mode nearest_mode:11"},
    {"ReverseSequence", "10", "batch_axis time_axis"},
    {"RoiAlign", "10 16 22",
     "coordinate_transformation_mode:16 mode output_height output_width sampling_ratio spatial_scale"},
    {"RotaryEmbedding", "23", "interleaved num_heads rotary_embedding_dim"},
    {"STFT", "17", "onesided"},
    {"Scan", "8 9 11 16 19 21 23 24 25",
     "body directions:8-8 num_scan_inputs scan_input_axes:9 scan_input_directions:9 scan_output_axes:9 "
     "scan_output_directions:9"},
    {"Scatter", "9 11", "axis:9-10"},
    {"ScatterElements", "11 13 16 18", "axis reduction:16"},
    {"ScatterND", "11 13 16 18", "reduction:16"},
    {"Selu", "1 6 22", "alpha consumed_inputs:1-5 gamma"},
    {"SequenceEmpty", "11", "dtype"},
    {"SequenceMap", "17", "body"},
    {"Shape", "1 13 15 19 21 23 24 25", "end:15 start:15"},
    {"Shrink", "9", "bias lambd"},
    {"Size", "1 13 19 21 23 24 25", ""},
    {"Slice", "1 10 11 13", "axes:1-9 ends:1-9 starts:1-9"},
    {"SoftmaxCrossEntropyLoss", "12 13", "ignore_index reduction"},
    {"SpaceToDepth", "1 13", "blocksize"},
    {"Split", "1 2 11 13 18", "axis num_outputs:18 split:1-12"},
    {"SplitToSequence", "11 24", "axis keepdims"},
    {"Squeeze Unsqueeze", "1 11 13 21 23 24 25", "axes:1-12"},
    {"StringConcat", "20", ""},
    {"StringNormalizer", "10", "case_change_action is_case_sensitive locale stopwords"},
    {"StringSplit", "20", "delimiter maxsplit"},
    {"SwiGLU", "28", "alpha"},
    {"Swish", "24", "alpha"},
    {"TensorScatter", "24", "axis mode"},
    {"TfIdfVectorizer", "9",
     "max_gram_length max_skip_count min_gram_length mode ngram_counts ngram_indexes pool_int64s pool_strings "
     "weights"},
    {"ThresholdedRelu", "10 22", "alpha"},
    {"Tile", "1 6 13", ""},
    {"TopK", "1 10 11 24", "axis k:1-9 largest:11 sorted:11"},
    {"Transpose", "1 13 21 23 24 25", "perm"},
    {"Trilu", "14", "upper"},
    {"Unique", "11", "axis sorted"},
    {"Upsample", "1 7 9 10", "height_scale:1-6 mode:1-9 scales:7-8 width_scale:1-6"},
    {"Where", "9 16", ""},
};
// clang-format on

// Takes the next word off the front of `text`; empty at the end.
std::string_view take_word(std::string_view& text) noexcept {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

std::int64_t number_of(std::string_view text) noexcept {
  std::int64_t n = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), n);
  return n;
}

}  // namespace

const onnx_operator* find_onnx_operator(std::string_view name) {
  static const auto& all = *new auto(op::by_name(table));
  return op::find_row(all, name);
}

std::int64_t defined_in(const onnx_operator& row, std::int64_t opset) noexcept {
  std::int64_t last = 0;
  std::string_view text = row.opsets;
  for (std::string_view word = take_word(text); !word.empty(); word = take_word(text)) {
    if (number_of(word) <= opset) last = number_of(word);
  }
  return last;
}

bool has_attribute(const onnx_operator& row, std::string_view name, std::int64_t opset) noexcept {
  std::string_view text = row.attributes;
  for (std::string_view word = take_word(text); !word.empty(); word = take_word(text)) {
    const std::size_t colon = std::min(word.find(':'), word.size());
    if (word.substr(0, colon) != name) continue;
    if (colon == word.size()) return true;
    const std::string_view range = word.substr(colon + 1);
    const std::size_t dash = range.find('-');
    const bool ended = dash != std::string_view::npos && opset > number_of(range.substr(dash + 1));
    if (opset >= number_of(range) && !ended) return true;
  }
  return false;
}

bool same_between(std::string_view name, std::int64_t a, std::int64_t b) {
  const onnx_operator* row = find_onnx_operator(name);
  return row == nullptr || defined_in(*row, a) == defined_in(*row, b);
}

std::string newer_than_read(std::string_view name, std::int64_t opset) {
  if (opset <= newest_opset) return "";
  const onnx_operator* row = find_onnx_operator(name);
  if (row == nullptr) return "";
  const std::int64_t changed = defined_in(*row, opset);
  if (changed > newest_opset) {
    return std::string{name} + " of opset " + std::to_string(changed) + " is read as it was in opset " +
           std::to_string(newest_opset);
  }
  if (opset <= newest_known_opset) return "";
  return std::string{name} + " is read as it was in opset " + std::to_string(newest_known_opset) + ": whether opset " +
         std::to_string(opset) + " has changed it is not known here";
}

}  // namespace berth::model
