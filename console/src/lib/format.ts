// Numbers, sizes and times for people.

const whole = new Intl.NumberFormat('en')

export const count = (value: number | null | undefined) => (value == null ? '–' : whole.format(value))

/** Where a long name such as RootManageSharedAccessKey may be broken into lines. */
export const wordsOf = (name: string) => name.split(/(?<=[a-z0-9])(?=[A-Z])/)

export const rate = (value: number | null | undefined) =>
  value == null ? '–' : value >= 100 ? whole.format(Math.round(value)) : value === 0 ? '0' : value.toFixed(1)

export function bytes(value: number | null | undefined): string {
  if (value == null) return '–'
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let at = 0
  for (; value >= 1024 && at < units.length - 1; at++) value /= 1024
  return `${at ? value.toFixed(1) : value} ${units[at]}`
}

export function moment(text: string | number | null | undefined): string {
  if (text == null || text === '') return '–'
  const date = new Date(text)
  return Number.isNaN(date.getTime()) ? String(text) : date.toISOString().replace('T', ' ').slice(0, 19) + 'Z'
}

export function age(text: string | number | null | undefined): string {
  if (text == null || text === '') return ''
  const seconds = Math.max(0, (Date.now() - new Date(text).getTime()) / 1000)
  if (seconds < 60) return `${Math.floor(seconds)} s ago`
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ago`
  return `${Math.floor(seconds / 86400)} d ago`
}

/** A word of a shell, quoted where it must be. */
export const quoted = (text: string) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`)
