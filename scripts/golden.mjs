// Records the golden outputs of tests/model/golden: what ONNX Runtime computes for the models that
// scripts/fetch_models.sh fetches, on the fixed pseudo-random input that `berth run` uses by default.
//
//   npm install --no-save --ignore-scripts onnxruntime-node@1.30.0      (about 290 MB)
//   scripts/fetch_models.sh --all
//   node scripts/golden.mjs [build/models] [tests/model/golden]
import {createRequire} from 'node:module';
import {mkdirSync, writeFileSync} from 'node:fs';
import {resolve} from 'node:path';

const require = createRequire(resolve('package.json'));
const ort = require('onnxruntime-node');

const ocr = (height, width) => ({
  'p2o.DynamicDimension.0': 1, 'p2o.DynamicDimension.1': height, 'p2o.DynamicDimension.2': width});
// every: of large outputs each so manieth element is kept, as one dimension.
const models = [
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

// berth::model::pseudo_random: splitmix64, the top 24 bits as a float in [-1, 1).
function pseudoRandom(count, seed) {
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

function npy(dims, data) {
  const tuple = dims.length === 1 ? `(${dims[0]},)` : `(${dims.join(', ')})`;
  let header = `{'descr': '<f4', 'fortran_order': False, 'shape': ${tuple}, }`;
  header = header.padEnd(Math.ceil((10 + header.length + 1) / 64) * 64 - 11) + '\n';
  const prefix = Buffer.from([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, header.length & 255, header.length >> 8]);
  return Buffer.concat([prefix, Buffer.from(header, 'latin1'), Buffer.from(data.buffer, data.byteOffset, data.byteLength)]);
}

const [source = 'build/models', target = 'tests/model/golden'] = process.argv.slice(2);
for (const {file, dims, every = 1} of models) {
  const session = await ort.InferenceSession.create(`${source}/${file}`, {executionProviders: ['cpu']});
  const feeds = {};
  session.inputMetadata.forEach((input, i) => {
    const shape = input.shape.map((d) => (typeof d === 'number' ? d : dims[d]));
    feeds[input.name] = new ort.Tensor('float32', pseudoRandom(shape.reduce((a, b) => a * b, 1), i + 1), shape);
  });
  const outputs = await session.run(feeds);
  const folder = `${target}/${file.replace('.onnx', '')}`;
  mkdirSync(folder, {recursive: true});
  for (const name of session.outputNames) {
    const {dims: shape, data} = outputs[name];
    const kept = every === 1 ? data : data.filter((_, i) => i % every === 0);
    writeFileSync(`${folder}/${name.replace(/[\/\\:]/g, '_')}.npy`, npy(every === 1 ? shape : [kept.length], kept));
    console.log(`${file}: ${name} ${shape.join('x')}`);
  }
}
