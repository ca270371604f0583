// A shared access signature out of a policy and its key, made in the browser: the key never leaves it.
//
// WebCrypto is missing on plain http:// outside of localhost, where a bus of a team often is; so the
// few lines of SHA-256 (FIPS 180-4) and HMAC (RFC 2104) are here, one way for every place.

const K = Uint32Array.from({ length: 64 }, (_, i) => fraction(Math.cbrt(prime(i))))

function prime(index: number): number {
  for (let candidate = 2, found = -1; ; candidate++) {
    let isPrime = true
    for (let d = 2; d * d <= candidate; d++) if (candidate % d === 0) isPrime = false
    if (isPrime && ++found === index) return candidate
  }
}

function fraction(value: number): number {
  return ((value - Math.floor(value)) * 2 ** 32) >>> 0
}

const turn = (x: number, n: number) => (x >>> n) | (x << (32 - n))

export function sha256(data: Uint8Array): Uint8Array {
  const state = Uint32Array.from({ length: 8 }, (_, i) => fraction(Math.sqrt(prime(i))))
  const padded = new Uint8Array(((data.length + 8) >> 6 << 6) + 64)
  padded.set(data)
  padded[data.length] = 0x80
  const view = new DataView(padded.buffer)
  view.setUint32(padded.length - 8, Math.floor(data.length / 2 ** 29))
  view.setUint32(padded.length - 4, data.length << 3)
  const w = new Uint32Array(64)
  for (let at = 0; at < padded.length; at += 64) {
    for (let i = 0; i < 16; i++) w[i] = view.getUint32(at + i * 4)
    for (let i = 16; i < 64; i++) {
      const a = w[i - 15]!, b = w[i - 2]!
      w[i] = w[i - 16]! + w[i - 7]! + (turn(a, 7) ^ turn(a, 18) ^ (a >>> 3)) + (turn(b, 17) ^ turn(b, 19) ^ (b >>> 10))
    }
    let [a, b, c, d, e, f, g, h] = state as unknown as [number, number, number, number, number, number, number, number]
    for (let i = 0; i < 64; i++) {
      const t1 = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + K[i]! + w[i]!) | 0
      const t2 = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0
      h = g; g = f; f = e; e = (d + t1) | 0; d = c; c = b; b = a; a = (t1 + t2) | 0
    }
    const sums = [a, b, c, d, e, f, g, h]
    for (let i = 0; i < 8; i++) state[i] = state[i]! + sums[i]!
  }
  const digest = new DataView(new ArrayBuffer(32))
  state.forEach((word, i) => digest.setUint32(i * 4, word))
  return new Uint8Array(digest.buffer)
}

export function hmac(key: Uint8Array, text: Uint8Array): Uint8Array {
  const block = new Uint8Array(64)
  block.set(key.length > 64 ? sha256(key) : key)
  const inner = new Uint8Array([...block.map((byte) => byte ^ 0x36), ...text])
  return sha256(new Uint8Array([...block.map((byte) => byte ^ 0x5c), ...sha256(inner)]))
}

export function sharedAccessSignature(audience: string, policy: string, key: string, seconds: number): string {
  const encoder = new TextEncoder()
  const resource = encodeURIComponent(audience)
  const expires = Math.floor(Date.now() / 1000) + seconds
  const digest = hmac(encoder.encode(key), encoder.encode(`${resource}\n${expires}`))
  const signature = encodeURIComponent(btoa(String.fromCharCode(...digest)))
  return `SharedAccessSignature sr=${resource}&sig=${signature}&se=${expires}&skn=${encodeURIComponent(policy)}`
}

export interface Credentials {
  policy: string
  key: string
  entity: string
}

/** The parts of a connection string that signing in needs. */
export function readConnectionString(text: string): Credentials {
  const parts = new Map<string, string>()
  for (const part of text.trim().split(';')) {
    const at = part.indexOf('=')
    if (at > 0) parts.set(part.slice(0, at).trim().toLowerCase(), part.slice(at + 1).trim())
  }
  return {
    policy: parts.get('sharedaccesskeyname') ?? '',
    key: parts.get('sharedaccesskey') ?? '',
    entity: parts.get('entitypath') ?? '',
  }
}
