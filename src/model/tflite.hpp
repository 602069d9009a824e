// The parts of a TensorFlow Lite model's subgraphs that are read. The fields are those of the published schema,
// https://github.com/tensorflow/tensorflow/blob/master/tensorflow/compiler/mlir/lite/schema/schema.fbs
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "berth/core/bytes.hpp"
#include "berth/model/problem_file.hpp"
#include "berth/plan/problem.hpp"
#include "model/flatbuffer.hpp"

namespace berth::model {

// Numbers of the fields in their tables.
struct tflite_field {
  struct model {
    static constexpr unsigned version = 0, operator_codes = 1, subgraphs = 2, buffers = 4, metadata = 6, count = 10;
  };
  struct operator_code {
    static constexpr unsigned deprecated_builtin = 0, custom = 1, builtin = 3;
  };
  struct subgraph {
    static constexpr unsigned tensors = 0, inputs = 1, outputs = 2, operators = 3;
  };
  struct tensor {
    static constexpr unsigned shape = 0, type = 1, buffer = 2, name = 3, is_variable = 5,
                              shape_signature = 7,  // the shape with -1 for each open dimension
        has_rank = 8,
                              external_buffer = 10;  // weights in another file
  };
  struct operation {
    static constexpr unsigned code = 0, inputs = 1, outputs = 2, options_type = 3, options = 4,
                              large_custom_options = 9;
  };
  struct buffer {
    static constexpr unsigned data = 0, offset = 1;  // offset: the data lies behind the FlatBuffer
  };
  struct metadata {
    static constexpr unsigned name = 0, buffer = 1;
  };
};

struct tflite_tensor {
  static constexpr plan::tick never = -1;
  flatbuffer::place at = 0;
  std::string name;
  bool constant = false;
  bool variable = false;
  bool scratch = false;      // no operator writes it: its readers use it as working memory
  plan::tick lower = never;  // when it is written; of scratch: when it is first read
  plan::tick upper = never;
};

struct tflite_subgraph {
  flatbuffer::place at = 0;
  std::vector<flatbuffer::place> operators;  // in the order of execution
  std::vector<tflite_tensor> tensors;
};

// Whose sizes: TFLM gives numbers of 4 bits a byte each and handles of resources four, and takes a tensor without a
// shape for one element. So does `lite` in files from before the field has_rank.
enum class tflite_sizes : bool { lite, micro };

// The name in `dimensions` that stands for every open dimension, and the metadata entry with a plan of TFLM.
inline constexpr std::string_view open_dimension = "open", offline_plan_name = "OfflineMemoryAllocation";

struct tflite_graph {
  flatbuffer file;
  flatbuffer::place model = 0;
  std::size_t count = 0;                   // of the subgraphs in the file
  std::vector<tflite_subgraph> subgraphs;  // that were read
  std::vector<flatbuffer::place> codes;    // of operators
  dimensions said;                         // sizes of open dimensions
  bool has_ranks = false;                  // some tensor has the field has_rank: one without it has an unknown shape
  std::size_t open = 0, scalars = 0;       // tensors of open dimensions without a size said, or of no shape, so far

  // "tensor 3 'name'", "tensor 3 'name' of subgraph 1"; the same for an operator.
  [[nodiscard]] std::string called(std::size_t subgraph, std::size_t tensor) const;
  [[nodiscard]] static std::string operator_called(std::size_t subgraph, std::size_t operation);
  // Its kind by both fields that may say it, the older of which ends at 127. Throws input_error: there is no such code.
  [[nodiscard]] std::int32_t code_of(flatbuffer::place operation) const;
  // Throws input_error: its shape or its type's size is unknown.
  [[nodiscard]] bytes size_of(std::size_t subgraph, std::size_t tensor, tflite_sizes whose);
  // Its name in `said`, where "NAME.0" is its first dimension and "NAME" its elements if its rank is unknown.
  [[nodiscard]] std::string key_of(std::size_t subgraph, std::size_t tensor) const;
  // Returns how the sizes were found where they are not the file's alone: one line each.
  [[nodiscard]] std::vector<std::string> notes() const;
  // The offsets that the file has for its tensors, those of all subgraphs; empty: it has no plan. Throws input_error.
  [[nodiscard]] std::vector<std::int32_t> offline_plan();

 private:
  [[nodiscard]] std::vector<std::int64_t> shape_of(std::size_t subgraph, std::size_t tensor, tflite_sizes whose);
};

enum class tflite_reads : bool { first, all };  // of the subgraphs

// Throws input_error; also where `said` names no open dimension. `path` and `text` must outlive what is returned.
[[nodiscard]] tflite_graph read_tflite_graph(const std::string& path, std::string_view text, tflite_reads which,
                                             const dimensions& said = {});

// Returns whether the file's plan puts tensors of an operator into its scratch, as the arenas of Ethos-U are.
[[nodiscard]] bool has_tensors_in_scratch(tflite_graph& g);

}  // namespace berth::model
