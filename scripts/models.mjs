// The models that scripts/fetch_models.sh --all fetches, their dimensions, and the input that `berth run` makes for
// them. Shared by golden.mjs and time_against_onnxruntime.mjs.
const ocr = (height, width) => ({
  'p2o.DynamicDimension.0': 1, 'p2o.DynamicDimension.1': height, 'p2o.DynamicDimension.2': width});
// every: keeps every n-th element of large outputs, as one dimension.
export const models = [
  {file: 'blazeface_back.onnx', dims: {}},
  {file: 'blazeface_front.onnx', dims: {}},
  {file: 'speech_embedding.onnx', dims: {unk__314: 1}},
  {file: 'melspectrogram.onnx', dims: {batch_size: 1, samples: 17280}},
  {file: 'ppocr_cls.onnx', dims: ocr(48, 192)},
  {file: 'ppocr_det.onnx', dims: ocr(192, 192), every: 7},
  {file: 'ppocr_rec.onnx', dims: {'p2o.DynamicDimension.0': 1, 'p2o.DynamicDimension.1': 64}, every: 7},
  {file: 'mlsd_tiny.onnx', dims: {}, every: 7},
  {file: 'mlsd_large.onnx', dims: {}, every: 31},
];

// Does the same as berth::model::pseudo_random: splitmix64, the top 24 bits as a float in [-1, 1).
export function pseudoRandom(count, seed) {
  const mask = (1n << 64n) - 1n;
  const step = 0x9e3779b97f4a7c15n;
  let state = (BigInt(seed) * step) & mask;
  return Float32Array.from({length: count}, () => {
    state = (state + step) & mask;
    let z = state;
    z = ((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n) & mask;
    z = ((z ^ (z >> 27n)) * 0x94d049bb133111ebn) & mask;
    z ^= z >> 31n;
    return Number(z >> 40n) * 2 ** -23 - 1;
  });
}

// Makes a tensor by name for each input of an ONNX Runtime session.
export function feedsOf(ort, session, dims) {
  const feeds = {};
  session.inputMetadata.forEach((input, i) => {
    const shape = input.shape.map((d) => (typeof d === 'number' ? d : dims[d]));
    feeds[input.name] = new ort.Tensor('float32', pseudoRandom(shape.reduce((a, b) => a * b, 1), i + 1), shape);
  });
  return feeds;
}
