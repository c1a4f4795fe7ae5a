//! x
use std::time::Instant;
use routepack_anneal::Stream;
use routepack_binpack::*;
use routepack_certificate::Statement;
fn knife(stream:&mut Stream, n:usize, c:u64, per:f64, sigma:f64, cap:f64, d:u64)->Vec<u64>{
    let mu=(c as f64/per).ln()-sigma*sigma/2.0; let top=(cap*c as f64) as u64;
    let mut w:Vec<u64>=(0..n).map(|_| ((mu+sigma*stream.normal()).exp() as u64).clamp(1,top)).collect();
    let mut total:u64=w.iter().sum(); let k=total.div_ceil(c*d)*d; let slack=0.02*stream.unit(); let mut target=(k as f64*c as f64*(1.0-slack)) as u64; if target<=(k-1)*c {target=(k-1)*c+1+(stream.unit()*0.5*c as f64) as u64;}
    while total!=target { let i=stream.index(n); if total<target { let add=(target-total).min(top-w[i]).min(1+w[i]/4); w[i]+=add; total+=add; } else { let sub=(total-target).min(w[i]/4).min(w[i]-1); w[i]-=sub; total-=sub; } }
    w
}
fn main(){
    for (n,c,d) in [(2048usize,8192u64,8),(4096,32768,1),(4096,32768,8)] { for rep in 0..4 { let per=2.5; let mut s=Stream::new(1000*rep+n as u64+(per*8.0) as u64); let w=knife(&mut s,n,c,per,0.9,0.8,d);
        let st=Statement::bins(w,c); let types=Types::new(&st).unwrap(); let l=volume_bound(&types).cells; let mut b=types.patterns_of(&best_fit_decreasing(&st.sizes,c,None)); print!("n {n} l {l} bfd {} slack {:.3} bins",b.len(),(l as f64*c as f64-types.total() as f64)/c as f64);
        for a in fill_tries(&Stream::new(7),60).take(30) { if let Some(p)=subset_sum_fill(&types,a,b.len() as u64-1,&||false){ b=p; } } print!(" fill {}",b.len()); 
        for k in 0..6 { let t0=Instant::now(); let tries=[2000,4000,10000,20000,40000,80000][k]; b=repack(&types,&b,l,tries,&Stream::new(k as u64),&||false); print!(" rp{tries} {} {:.2}s",b.len(),t0.elapsed().as_secs_f64()); if b.len() as u64<=l {break;} } println!();
    }}
}
